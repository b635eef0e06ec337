"""Records and bytes a second."""

from __future__ import annotations

from ottla.cli.perf.rates import cut_short_text, rate_facts, rate_fields


def test_for_programs_and_for_people() -> None:
    assert rate_fields(10, 5_000_000, 0.5) == {
        "seconds": 0.5,
        "records_per_s": 20.0,
        "mb_per_s": 10.0,
    }
    assert rate_facts(1000, 5_000_000, 0.5) == [
        ("records", "1,000 in 0.50 s"),
        ("rate", "2,000 records/s, 10.0 MB/s"),
    ]


def test_no_time_at_all_is_no_division_by_zero() -> None:
    assert rate_fields(0, 0, 0.0)["records_per_s"] == 0


def test_cut_short_on_one_line() -> None:
    text = "until it was stopped: 10 in 0.50 s, 20 records/s, 0.0 MB/s"

    assert cut_short_text(10, 0, 0.5, "") == text
    assert cut_short_text(10, 0, 0.5, "t is kept") == f"{text}; t is kept"
