"""Output for people and for programs: drawn tables on a terminal, plain columns in a pipe, JSON
when asked."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import NamedTuple

from ottla.cli.options import iso_of


class Column(NamedTuple):
    title: str
    is_number: bool = False


Rows = Sequence[Sequence[str]]

# What a cell means decides its colour, and a colour never says what the text does not.
_STYLES = {"ok": "green", "offline": "bold red", "none": "bold red"}
_WARNING_STYLE = "yellow"
_WARNINGS = ("under-replicated", "under-min-isr", "not on preferred leader")


def print_json(value: object) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False))


def print_table(columns: Sequence[Column], rows: Rows) -> None:
    if sys.stdout.isatty():
        _draw(columns, rows)
    else:
        print(plain(columns, rows))


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


def _draw(columns: Sequence[Column], rows: Rows) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(
            column.title, justify="right" if column.is_number else "left", overflow="fold"
        )
    for row in rows:
        table.add_row(*(Text(cell, style=style_of(cell)) for cell in row))
    Console().print(table)


def style_of(cell: str) -> str:
    if cell in _STYLES:
        return _STYLES[cell]
    if "offline" in cell.split(", "):
        return _STYLES["offline"]
    return _WARNING_STYLE if any(warning in cell for warning in _WARNINGS) else ""
