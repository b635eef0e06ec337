"""Output for people and for programs: drawn tables on a terminal, plain columns in a pipe, JSON
when asked."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from ottla.cli.options import iso_of

if TYPE_CHECKING:
    from rich.table import Table


class Column(NamedTuple):
    title: str
    is_number: bool = False
    rank: int = 0
    """0 always stays. Of the others the highest is left out first when a terminal is narrow."""
    is_whole: bool = False
    """It never folds, as numbers do not: bars, say."""


Rows = Sequence[Sequence[str]]

_GAP = 2
"""Between two columns."""
_SENTENCE = 18

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
    print(facts_text(facts))


def facts_text(facts: Sequence[tuple[str, str]]) -> str:
    """Names and values below one another."""
    width = max(len(name) for name, _ in facts)
    return "\n".join(f"{name.ljust(width)}  {value}" for name, value in facts)


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
    """For a terminal of this width. What is still too wide folds: text between its words, and names
    where they must."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    kept = fitting(columns, rows, width)
    table = Table(
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, _GAP - 1, 0, 0),  # The box has a column of its own between two.
        header_style="bold",
    )
    for index, column_width in zip(kept, _widths(columns, rows, kept, width), strict=True):
        column = columns[index]
        justify: Literal["left", "right"] = "right" if column.is_number else "left"
        table.add_column(column.title, justify=justify, overflow="fold", width=column_width)
    for row in rows:
        table.add_row(*(Text(row[index], style=style_of(row[index])) for index in kept))
    return table


def fitting(columns: Sequence[Column], rows: Rows, width: int) -> list[int]:
    """Which columns a terminal of this width has room for."""
    narrowest = _narrowest(columns, rows, width)
    kept = list(range(len(columns)))
    while sum(narrowest[index] for index in kept) > _room(kept, width):
        least = max(kept, key=lambda index: (columns[index].rank, index))
        if columns[least].rank == 0:
            break
        kept.remove(least)
    return kept


def _widths(columns: Sequence[Column], rows: Rows, kept: Sequence[int], width: int) -> list[int]:
    """What is left when all have what they need goes to those that need least more to be whole.
    rich itself shrinks the widest, and cuts what does not fit then."""
    narrowest, widest = _narrowest(columns, rows, width), _widest(columns, rows)
    widths = {index: narrowest[index] for index in kept}
    left = _room(kept, width) - sum(widths.values())
    for index in sorted(kept, key=lambda index: widest[index] - narrowest[index]):
        more = max(0, min(left, widest[index] - narrowest[index]))
        widths[index] += more
        left -= more
    while left < 0 and max(widths.values()) > 1:  # narrower than anybody reads
        widths[max(kept, key=lambda index: widths[index])] -= 1
        left += 1
    return [widths[index] for index in kept]


def _room(kept: Sequence[int], width: int) -> int:
    return width - _GAP * (len(kept) - 1)


def _widest(columns: Sequence[Column], rows: Rows) -> list[int]:
    return [
        max(len(column.title), *(len(row[index]) for row in rows), 0)
        for index, column in enumerate(columns)
    ]


def _narrowest(columns: Sequence[Column], rows: Rows, width: int) -> list[int]:
    """Its longest word stays whole, unless that takes half of the terminal. Such a name folds,
    rather than to leave out everything beside it. Sentences have room for some words."""
    return [
        widest
        if column.is_number or column.is_whole
        else max(
            _longest_word(column.title),
            min(widest, _SENTENCE),
            *(min(_longest_word(row[index]), width // 2) for row in rows),
        )
        for index, (column, widest) in enumerate(zip(columns, _widest(columns, rows), strict=True))
    ]


def _longest_word(text: str) -> int:
    return max(map(len, text.split()), default=0)


def style_of(cell: str) -> str:
    if cell in _STYLES:
        return _STYLES[cell]
    if re.search(r"(^|\s)offline(,|$)", cell):
        return _STYLES["offline"]
    return _WARNING_STYLE if any(warning in cell for warning in _WARNINGS) else ""
