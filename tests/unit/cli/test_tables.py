"""Tables for people and for programs."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence

import pytest
from rich.console import Console

from ottla.cli.tables import (
    Column,
    Rows,
    drawn_table,
    duration_text,
    fitting,
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


NARROW = [
    Column("GROUP"),
    Column("STATE", rank=1),
    Column("LAG", is_number=True),
    Column("COORDINATOR", is_number=True, rank=3),
    Column("HEALTH", rank=2),
]
ROW = ["billing", "PreparingRebalance", "1200", "1", "offline, under-replicated"]


@pytest.mark.parametrize(
    ("width", "titles"),
    [
        (80, ["GROUP", "STATE", "LAG", "COORDINATOR", "HEALTH"]),
        (54, ["GROUP", "STATE", "LAG", "HEALTH"]),
        (40, ["GROUP", "STATE", "LAG"]),
        (20, ["GROUP", "LAG"]),
        (5, ["GROUP", "LAG"]),
    ],
)
def test_a_narrow_terminal_has_what_matters_most(width: int, titles: list[str]) -> None:
    assert [NARROW[index].title for index in fitting(NARROW, [ROW], width)] == titles


def test_words_and_numbers_stay_whole_and_a_long_name_folds() -> None:
    name = "eu-west-1.shop.orders.enriched.by-customer.v2"
    lines = drawn_lines(NARROW, [[name, *ROW[1:]]], width=60)

    assert max(map(len, lines)) <= 60
    assert "PreparingRebalance" in lines[2]
    assert lines[2].endswith("1200")
    # Read down its column it is all there.
    assert "".join(line.split("  ")[0].strip() for line in lines[2:]) == name


@pytest.mark.parametrize("width", [24, 40, 60, 80, 120])
def test_nothing_that_is_shown_is_cut(width: int) -> None:
    columns = [Column("TOPIC"), Column("LAG", is_number=True), Column("NOTE"), Column("", rank=1)]
    name = "eu-west-1.shop.orders.enriched.by-customer.v2"
    rows = [[name, "1200", "5000 is after the latest", "read-only"], ["a", "7", "", "read-only"]]

    lines = drawn_lines(columns, rows, width=width)
    assert max(map(len, lines)) <= width
    shown = " ".join(lines)
    assert "1200" in shown
    assert all(word in shown for word in rows[0][2].split())
    assert shown.count("read-only") in (0, 2)


def test_bars_are_shown_whole_or_not_at_all() -> None:
    columns = [Column("A"), Column("", rank=1, is_whole=True)]

    assert fitting(columns, [["x", "█" * 30]], 33) == [0, 1]
    assert fitting(columns, [["x", "█" * 30]], 32) == [0]


def test_a_terminal_is_told_what_it_does_not_see(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "54")

    print_table(NARROW, [ROW])
    out = capsys.readouterr().out
    assert "This terminal has no room for COORDINATOR." in out
    monkeypatch.setenv("COLUMNS", "100")
    print_table(NARROW, [ROW])
    assert "no room" not in capsys.readouterr().out


def drawn_lines(columns: Sequence[Column], rows: Rows, *, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    console.print(drawn_table(columns, rows, width))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


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
        ("2 under-replicated, 1 under-min-isr", "yellow"),
        ("2 offline", "bold red"),
        ("1 offline, 2 under-replicated", "bold red"),
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
