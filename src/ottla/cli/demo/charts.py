"""Plots as SVG text. They have no colours of their own: classes s1 and s2 are the series, and the
page says how they look in light and in dark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH = 520
"""Of a plot that has half of the page: its text is then as large as the page's."""
WIDE = 1100
_HEIGHT = 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 48, 84, 12, 28
_ROW = 22
_LABELS_MAX = 7
_TICKS = 4


@dataclass(frozen=True, slots=True)
class Series:
    name: str
    values: Sequence[float]


def ticks(top: float, count: int = _TICKS) -> list[float]:
    """Round numbers from 0 to the first one that is not below `top`.

    >>> ticks(730)
    [0, 200, 400, 600, 800]
    """
    step = 1.0
    while step * count < top:
        # 1, 2, 5, 10, 20, 50...
        step *= 2.5 if f"{step:.0f}"[0] == "2" else 2
    found = [0.0]
    while found[-1] < max(top, step):
        found.append(found[-1] + step)
    return found


def lines(
    labels: Sequence[str], series: Sequence[Series], title: str, *, width: int = WIDTH
) -> str:
    """One line a series over the same labels."""
    marks = ticks(max((value for one in series for value in one.values), default=0))
    parts = [*_grid(marks, width)]
    shown = max(1, -(-len(labels) // _LABELS_MAX))
    for index in range(0, len(labels), shown):
        parts.append(_below(_x(index, len(labels), width), labels[index]))
    for number, one in enumerate(series, 1):
        points = [
            (_x(index, len(labels), width), _y(value, marks[-1]))
            for index, value in enumerate(one.values)
        ]
        drawn = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline class="line s{number}" points="{drawn}"/>')
        for label, value, (x, y) in zip(labels, one.values, points, strict=True):
            parts.append(
                f'<circle class="point s{number}" cx="{x:.1f}" cy="{y:.1f}" r="2.5">'
                f"<title>{escape(label)}: {value:,.0f} {escape(one.name)}</title></circle>"
            )
    parts.extend(_ends(series, marks[-1], _x(len(labels) - 1, len(labels), width)))
    return _svg(width, _HEIGHT, title, parts)


def _ends(series: Sequence[Series], top: float, x: float) -> list[str]:
    """The name of a line, where it ends; apart where lines end together."""
    places = sorted(
        (_y(one.values[-1], top), number, one.name)
        for number, one in enumerate(series, 1)
        if one.values
    )
    parts, last = [], -1e9
    for y, number, name in places:
        last = max(y, last + 14)
        parts.append(
            f'<text class="name s{number}" x="{x + 8:.1f}" y="{last + 4:.1f}">{escape(name)}</text>'
        )
    return parts


def bars(items: Sequence[tuple[str, float]], title: str, *, number: int = 1) -> str:
    """Lying ones, the longest first, with their names before and their values behind them."""
    top = max((value for _, value in items), default=0) or 1
    left, room = 110, WIDTH - 110 - 60
    parts = []
    for row, (name, value) in enumerate(items):
        y = row * _ROW
        length = max(1.0, value / top * room)
        parts.append(
            f'<text x="{left - 8}" y="{y + 15}" text-anchor="end">{escape(name)}</text>'
            f'<rect class="bar s{number}" x="{left}" y="{y + 3}" width="{length:.1f}" '
            f'height="{_ROW - 6}" rx="3"><title>{escape(name)}: {value:,.0f}</title></rect>'
            f'<text class="value" x="{left + length + 6:.1f}" y="{y + 15}">{value:,.0f}</text>'
        )
    return _svg(WIDTH, max(1, len(items)) * _ROW, title, parts)


def columns(items: Sequence[tuple[str, float]], title: str, *, number: int = 1) -> str:
    """Standing ones, side by side: a histogram."""
    marks = ticks(max((value for _, value in items), default=0))
    parts = [*_grid(marks, WIDTH)]
    width = (WIDTH - _LEFT - _RIGHT / 4) / max(1, len(items))
    shown = max(1, -(-len(items) // 16))
    for index, (name, value) in enumerate(items):
        x, y = _LEFT + index * width, _y(value, marks[-1])
        height = _HEIGHT - _BOTTOM - y
        parts.append(
            f'<rect class="bar s{number}" x="{x + 1:.1f}" y="{y:.1f}" width="{width - 2:.1f}" '
            f'height="{height:.1f}" rx="2"><title>{escape(name)}: {value:,.0f}</title></rect>'
        )
        if index % shown == 0:
            parts.append(_below(x + width / 2, name))
    return _svg(WIDTH, _HEIGHT, title, parts)


def _below(x: float, label: str) -> str:
    return f'<text x="{x:.1f}" y="{_HEIGHT - 8}" text-anchor="middle">{escape(label)}</text>'


def _grid(marks: Sequence[float], width: int) -> list[str]:
    parts = []
    for mark in marks:
        y = _y(mark, marks[-1])
        parts.append(
            f'<line class="grid" x1="{_LEFT}" x2="{width - _RIGHT / 4:.0f}" y1="{y:.1f}" '
            f'y2="{y:.1f}"/><text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{mark:,.0f}'
            "</text>"
        )
    return parts


def _x(index: int, count: int, width: int) -> float:
    return _LEFT + index * (width - _LEFT - _RIGHT) / max(1, count - 1)


def _y(value: float, top: float) -> float:
    return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - value / top)


def _svg(width: int, height: int, title: str, parts: Sequence[str]) -> str:
    return (
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(title)}">'
        f"{''.join(parts)}</svg>"
    )
