"""Tables for people and for programs."""

from __future__ import annotations

import json

import pytest

from ottla.cli.tables import (
    Column,
    duration_text,
    heading,
    plain,
    print_facts,
    print_json,
    print_table,
    size_text,
    style_of,
)

COLUMNS = [Column("TOPIC"), Column("RECORDS", is_number=True), Column("HEALTH")]


def test_plain_columns_line_up_and_nothing_is_cut() -> None:
    rows = [["a", "12", "ok"], ["a-long-name-" * 9, "3", ""]]

    assert plain(COLUMNS, rows).splitlines() == [
        "TOPIC" + " " * 103 + "  RECORDS  HEALTH",
        "a" + " " * 107 + "       12  ok",
        "a-long-name-" * 9 + "        3",
    ]


def test_a_table_in_a_pipe_has_no_lines_and_no_colours(capsys: pytest.CaptureFixture[str]) -> None:
    heading("clicks")
    print_table(COLUMNS, [["a", "1", "offline"]])

    assert capsys.readouterr().out == "clicks\nTOPIC  RECORDS  HEALTH\na            1  offline\n"


def test_facts_stand_below_one_another(capsys: pytest.CaptureFixture[str]) -> None:
    print_facts([("id", "x"), ("partitions", "3")])

    assert capsys.readouterr().out == "id          x\npartitions  3\n"


def test_json_keeps_its_letters(capsys: pytest.CaptureFixture[str]) -> None:
    print_json([{"name": "ünï"}])

    out = capsys.readouterr().out
    assert json.loads(out) == [{"name": "ünï"}]
    assert "ünï" in out


@pytest.mark.parametrize(
    ("cell", "style"),
    [
        ("ok", "green"),
        ("offline, under-replicated", "bold red"),
        ("under-replicated", "yellow"),
        ("offline-events", ""),
        ("12", ""),
    ],
)
def test_colour_follows_meaning(cell: str, style: str) -> None:
    assert style_of(cell) == style


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (34_100_000, "34.1 MB"), (5e12, "5.0 TB")],
)
def test_sizes(size_bytes: float, text: str) -> None:
    assert size_text(size_bytes) == text


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "0.0 s"),
        (59_949, "59.9 s"),
        (60_000, "1 min"),
        (61_000, "1 min 1 s"),
        (3_600_000, "1 h"),
        (86_460_000, "24 h 1 min"),
    ],
)
def test_durations(milliseconds: int, text: str) -> None:
    assert duration_text(milliseconds) == text
