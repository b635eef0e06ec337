"""Output for people and for programs: drawn tables on a terminal, plain columns in a pipe, JSON
when asked."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ottla.cli.options import iso_of

if TYPE_CHECKING:
    from rich.table import Table


class Column(NamedTuple):
    title: str
    is_number: bool = False
    rank: int = 0
    """0 always stays. Of the others the highest is left out first when a terminal is narrow."""


Rows = Sequence[Sequence[str]]

_GAP = 2
"""Between two columns."""

# What a cell means decides its colour, and a colour never says what the text does not.
_STYLES = {"ok": "green", "offline": "bold red", "none": "bold red"}
_WARNING_STYLE = "yellow"
_WARNINGS = ("under-replicated", "under-min-isr", "not on preferred leader")


def print_json(value: object) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False))


def print_table(columns: Sequence[Column], rows: Rows) -> None:
    """On a terminal, columns that matter least give way to those that matter; a pipe gets all."""
    if not sys.stdout.isatty():
        print(plain(columns, rows))
        return
    from rich.console import Console

    console = Console()
    console.print(drawn_table(columns, rows, console.width))
    kept = fitting(columns, rows, console.width)
    if left_out := [
        one.title for index, one in enumerate(columns) if index not in kept and one.title
    ]:
        note = f"This terminal has no room for {', '.join(left_out)}."
        console.print(note, style="dim", highlight=False, markup=False)


def plain(columns: Sequence[Column], rows: Rows) -> str:
    """Columns parted by two spaces, nothing cut: for pipes, files and tests."""
    lines = [[column.title for column in columns], *rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if column.is_number else cell.ljust(width)
            for cell, width, column in zip(line, widths, columns, strict=True)
        ).rstrip()
        for line in lines
    )


def print_facts(facts: Sequence[tuple[str, str]]) -> None:
    """Names and values below one another."""
    width = max(len(name) for name, _ in facts)
    for name, value in facts:
        print(f"{name.ljust(width)}  {value}")


def heading(text: str) -> None:
    if sys.stdout.isatty():
        from rich.console import Console

        Console(highlight=False).print(text, style="bold", markup=False)
    else:
        print(text)


def size_text(size_bytes: float) -> str:
    """Decimal units, as disks and networks are sold."""
    for unit in ("B", "kB", "MB", "GB"):
        if size_bytes < 1000:
            return f"{size_bytes:.0f} B" if unit == "B" else f"{size_bytes:.1f} {unit}"
        size_bytes /= 1000
    return f"{size_bytes:.1f} TB"


def duration_text(milliseconds: int) -> str:
    """
    >>> duration_text(1500), duration_text(90_000), duration_text(7_500_000)
    ('1.5 s', '1 min 30 s', '2 h 5 min')
    """
    seconds = milliseconds / 1000
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, left_s = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {left_s} s" if left_s else f"{minutes} min"
    hours, left_minutes = divmod(minutes, 60)
    return f"{hours} h {left_minutes} min" if left_minutes else f"{hours} h"


def time_or_dash(timestamp_ms: int | None) -> str:
    return "-" if timestamp_ms is None else iso_of(timestamp_ms)


def or_dash(value: object) -> str:
    """What is not known, or not there, is a dash."""
    return "-" if value is None else str(value)


def drawn_table(columns: Sequence[Column], rows: Rows, width: int) -> Table:
    """For a terminal of this width. What is still too wide folds: names between their words, or
    where they must, and numbers never."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    needed = _needed(columns, rows, width)
    kept = fitting(columns, rows, width)
    has_room = _total(needed, kept) <= width
    table = Table(
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, _GAP - 1, 0, 0),  # The box has a column of its own between two.
        header_style="bold",
    )
    for index in kept:
        column = columns[index]
        table.add_column(
            column.title,
            justify="right" if column.is_number else "left",
            overflow="fold",
            no_wrap=column.is_number,
            min_width=needed[index] if has_room else None,
        )
    for row in rows:
        table.add_row(*(Text(row[index], style=style_of(row[index])) for index in kept))
    return table


def fitting(columns: Sequence[Column], rows: Rows, width: int) -> list[int]:
    """Which columns a terminal of this width has room for."""
    needed = _needed(columns, rows, width)
    kept = list(range(len(columns)))
    while _total(needed, kept) > width:
        least = max(kept, key=lambda index: (columns[index].rank, index))
        if columns[least].rank == 0:
            break
        kept.remove(least)
    return kept


def _needed(columns: Sequence[Column], rows: Rows, width: int) -> list[int]:
    """How narrow a column may be: its longest word stays whole, unless that takes half of the
    terminal. Such a name folds, rather than to leave out everything beside it."""
    return [
        max(
            len(column.title),
            *(
                len(cell) if column.is_number else min(_longest_word(cell), width // 2)
                for cell in ("", *(row[index] for row in rows))
            ),
        )
        for index, column in enumerate(columns)
    ]


def _longest_word(cell: str) -> int:
    return max(map(len, cell.split()), default=0)


def _total(needed: Sequence[int], kept: Sequence[int]) -> int:
    return sum(needed[index] + _GAP for index in kept) - _GAP


def style_of(cell: str) -> str:
    if cell in _STYLES:
        return _STYLES[cell]
    if re.search(r"(^|\s)offline(,|$)", cell):
        return _STYLES["offline"]
    return _WARNING_STYLE if any(warning in cell for warning in _WARNINGS) else ""
