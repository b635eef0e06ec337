"""Plots as HTML text. Lines are SVG that is stretched to the room there is; all that is to be read
is HTML beside it, as large on a phone as on a wide screen. Plots have no colours of their own:
classes s1 and s2 are the series, and the page's style says how they look in light and in dark."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

_SIZE = 1000
"""Of the SVG's own units, in both directions."""
_LABELS_NARROW = 6
_VALUE_STEPS = (1, 2, 5)
_TIME_STEPS_S = (
    *(1, 2, 5, 10, 15, 30),
    *(60, 120, 300, 600, 900, 1800),
    *(3600, 7200, 10_800, 21_600, 43_200, 86_400),
)

Text = Callable[[float], str]


@dataclass(frozen=True, slots=True)
class Series:
    name: str
    values: Sequence[float | None]
    """None where nothing was measured."""


@dataclass(frozen=True, slots=True)
class Axes:
    """How the numbers of a plot are read."""

    time: Text
    value: Text
    time_ticks: int = 5
    first_s: float | None = None
    """Where time begins, if not with the first point."""


def value_ticks(top: float, count: int = 4) -> list[float]:
    """Round numbers from 0 to the first one that is not below `top`.

    >>> value_ticks(730)
    [0.0, 200.0, 400.0, 600.0, 800.0]
    """
    if top <= 0:
        return [0.0, 1.0]
    exponent = -3
    while True:
        for digit in _VALUE_STEPS:
            # One division, so that 0.3 is 0.3.
            step, by = (digit * 10**exponent, 1) if exponent >= 0 else (digit, 10**-exponent)
            needed = -(-top * by // step)
            if needed <= count:
                return [number * step / by for number in range(int(needed) + 1)]
        exponent += 1


def time_ticks(first_s: float, last_s: float, count: int) -> list[float]:
    """Round times between the two, at most one more than `count`.

    >>> time_ticks(0, 47, 5)
    [0, 10, 20, 30, 40]
    """
    step = next(
        (step for step in _TIME_STEPS_S if step * count >= last_s - first_s),
        -(-(last_s - first_s) // (86_400 * count)) * 86_400,
    )
    begin = -(-first_s // step)
    return [number * step for number in range(int(begin), int(last_s // step) + 1)]


def line_chart(
    title: str,
    at_s: Sequence[float],
    series: Sequence[Series],
    axes: Axes,
    *,
    final_count: int | None = None,
) -> str:
    """One line a series over the same times. What comes after the first `final_count` points may
    still change, and is dashed."""
    first_s = at_s[0] if axes.first_s is None else axes.first_s
    last_s = max(at_s[-1], first_s + 1)
    marks = value_ticks(max((v for one in series for v in one.values if v is not None), default=0))
    x = [(at - first_s) / (last_s - first_s) for at in at_s]
    final_count = len(at_s) if final_count is None else final_count
    svg: list[str] = []
    dots = []
    for number, one in enumerate(series, 1):
        points = [
            None if value is None else (left, 1 - value / marks[-1])
            for left, value in zip(x, one.values, strict=True)
        ]
        svg.extend(_line(points, number, final_count))
        if points[-1] is not None:
            left, top = points[-1]
            kind = "dot" if final_count == len(at_s) else "dot open"
            dots.append(f'<i class="{kind} s{number}" style="{_at(left, top)}"></i>')
    tips = []
    for index, at in enumerate(at_s):
        values = ((one.name, one.values[index]) for one in series)
        parts = [f"{axes.value(value)} {name}" for name, value in values if value is not None]
        grows = ["may still grow"] if index >= final_count else []
        tips.append(" · ".join([axes.time(at), *parts, *grows]))
    return (
        f'<div class="chart" {_pointed(x, tips)}>'
        f"{_svg(title, [*_grid(marks), *svg])}{_value_labels(marks, axes.value)}"
        f"{_time_labels(first_s, last_s, axes)}{''.join(dots)}</div>"
    )


def _pointed(places: Sequence[float], tips: Sequence[str]) -> str:
    """What the page's script says of the point that is nearest to the pointer."""
    at = " ".join(f"{place:.4g}" for place in places)
    return f'data-at="{at}" data-tips="{escape(json.dumps(tips, ensure_ascii=False))}"'


Point = tuple[float, float]


def _line(points: Sequence[Point | None], number: int, final_count: int) -> Iterator[str]:
    """A step from one point to the next is final if the next is."""
    whole = _path(points[:final_count])
    # The dashed part begins where the other ends.
    rest = _path(points[max(0, final_count - 1) :])
    runs = _runs(points)
    if number == 1 and runs:
        area = "".join(
            f"M{_xy(run[0][0], 1)}L{'L'.join(_xy(*point) for point in run)}L{_xy(run[-1][0], 1)}Z"
            for run in runs
        )
        yield f'<path class="area s{number}" d="{area}"/>'
    if whole:
        yield f'<path class="line s{number}" d="{whole}"/>'
    if final_count < len(points) and rest:
        yield f'<path class="line open s{number}" d="{rest}"/>'


def _runs(points: Sequence[Point | None]) -> list[list[Point]]:
    """What lies between gaps."""
    runs: list[list[Point]] = [[]]
    for point in points:
        if point is None:
            runs.append([])
        else:
            runs[-1].append(point)
    return [run for run in runs if run]


def _path(points: Sequence[Point | None]) -> str:
    return "".join(f"M{'L'.join(_xy(*point) for point in run)}" for run in _runs(points))


def _xy(left: float, top: float) -> str:
    return f"{left * _SIZE:.1f},{top * _SIZE:.1f}"


def _grid(marks: Sequence[float]) -> Iterator[str]:
    for mark in marks:
        y = (1 - mark / marks[-1]) * _SIZE
        kind = "grid base" if mark == 0 else "grid"
        yield f'<path class="{kind}" d="M0,{y:.1f}H{_SIZE}"/>'


def _value_labels(marks: Sequence[float], text: Text) -> str:
    places = ((100 - mark / marks[-1] * 100, escape(text(mark))) for mark in marks)
    return "".join(
        f'<span class="y" style="top:{top:.2f}%">{label}</span>' for top, label in places
    )


def _time_labels(first_s: float, last_s: float, axes: Axes) -> str:
    ticks = time_ticks(first_s, last_s, axes.time_ticks)
    return _labels([((at - first_s) / (last_s - first_s), axes.time(at)) for at in ticks])


def _labels(places: Sequence[tuple[float, str]]) -> str:
    """Below the plot. Of many, every second one has a class: a narrow plot leaves it out."""
    is_crowded = len(places) > _LABELS_NARROW
    return "".join(
        f'<span class="{"x minor" if is_crowded and index % 2 else "x"}" '
        f'style="left:{left * 100:.2f}%">{escape(text)}</span>'
        for index, (left, text) in enumerate(places)
    )


def _at(left: float, top: float) -> str:
    return f"left:{left * 100:.2f}%;top:{top * 100:.2f}%"


def _svg(title: str, parts: Sequence[str]) -> str:
    return (
        f'<svg viewBox="0 0 {_SIZE} {_SIZE}" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape(title)}">{"".join(parts)}</svg>'
    )


def bars(items: Sequence[tuple[str, float]], *, number: int = 1) -> str:
    """Lying ones, the longest first, with their names before and their values behind them."""
    top = max((value for _, value in items), default=0) or 1
    rows = "".join(
        f'<span class="name" title="{escape(name)}">{escape(name)}</span>'
        f'<span class="track"><i class="bar s{number}" style="width:{value / top * 100:.2f}%"></i>'
        f'</span><span class="value">{value:,.0f}</span>'
        for name, value in items
    )
    return f'<div class="bars">{rows}</div>'


def columns(title: str, items: Sequence[tuple[str, float]], *, number: int = 1) -> str:
    """Standing ones, side by side: a histogram."""
    marks = value_ticks(max((value for _, value in items), default=0))
    edges = [index / len(items) for index in range(len(items) + 1)]
    middles = [(left + right) / 2 for left, right in pairwise(edges)]
    rects = []
    for (_, value), (left, right) in zip(items, pairwise(edges), strict=True):
        width, height = right - left, value / marks[-1]
        rects.append(
            f'<rect class="bar s{number}" x="{(left + width * 0.1) * _SIZE:.1f}" '
            f'y="{(1 - height) * _SIZE:.1f}" width="{width * 0.8 * _SIZE:.1f}" '
            f'height="{height * _SIZE:.1f}"/>'
        )
    names = _labels([(middle, name) for middle, (name, _) in zip(middles, items, strict=True)])
    tips = [f"{name}: {value:,.0f}" for name, value in items]
    return (
        f'<div class="chart" {_pointed(middles, tips)}>'
        f"{_svg(title, [*_grid(marks), *rects])}"
        f"{_value_labels(marks, lambda mark: f'{mark:,.0f}')}{names}</div>"
    )
