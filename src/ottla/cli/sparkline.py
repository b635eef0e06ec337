"""A row of bars, one a value."""

from __future__ import annotations

from collections.abc import Collection

_BARS = "▁▂▃▄▅▆▇█"


def sparkline(values: Collection[float]) -> str:
    """The highest value has the highest bar; zero has the lowest."""
    top = max(values, default=0.0)
    if top <= 0:
        return _BARS[0] * len(values)
    return "".join(_BARS[round(value / top * (len(_BARS) - 1))] for value in values)
