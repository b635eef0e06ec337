"""Tables and the like."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

MADE_BY = "<!-- Made by `python -m tools.reference` from the code. Do not edit. -->\n"


def table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [titles, ["---"] * len(titles), *rows]
    return "".join(f"| {' | '.join(_cell(cell) for cell in line)} |\n" for line in lines)


def code(text: str) -> str:
    return f"`{text}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
