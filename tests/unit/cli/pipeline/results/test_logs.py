from __future__ import annotations

import pytest

from ottla.cli.pipeline.results.logs import found_in, is_empty, print_found

VALUES = {
    "logs-error-rates": [
        {
            "minute": f"2026-01-01T08:0{minute}:00.000Z",
            "service": service,
            "lines": 100,
            "errors": errors,
            "rate": errors / 100,
        }
        for service, minute, errors in [("cart", 1, 2), ("cart", 0, 4), ("edge", 0, 9)]
    ]
}


def test_services_with_most_errors_come_first() -> None:
    found = found_in(VALUES, "/no/lake")

    assert [(one["service"], one["rate"]) for one in found["services"]] == [
        ("edge", 0.09),
        ("cart", 0.03),
    ]
    assert [minute["errors"] for minute in found["services"][1]["minutes"]] == [4, 2]
    assert is_empty(found_in({}, "/no/lake"))


def test_what_stands_below_one_another_happened_at_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_found(found_in(VALUES, "/no/lake"))

    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["edge", "100", "9", "9.0%", "█▁"]
    assert lines[2].split() == ["cart", "200", "6", "3.0%", "█▅"]
    assert len(lines[1]) == len(lines[2])
