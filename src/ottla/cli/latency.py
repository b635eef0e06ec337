"""Latencies of many operations, and what is usually asked of them."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple


class Summary(NamedTuple):
    p50_ms: float
    p95_ms: float
    p99_ms: float
    max_ms: float


def summary_of(latencies_ms: Collection[float]) -> Summary | None:
    """Nearest-rank percentiles; None when nothing was measured."""
    if not latencies_ms:
        return None
    ordered = sorted(latencies_ms)
    count = len(ordered)
    # Rank ceil(count * percent / 100), counted from one, in whole numbers.
    p50, p95, p99 = (ordered[(count * percent + 99) // 100 - 1] for percent in (50, 95, 99))
    return Summary(p50, p95, p99, ordered[-1])


def milliseconds_text(milliseconds: float) -> str:
    return f"{milliseconds:.2f} ms" if milliseconds < 10 else f"{milliseconds:,.0f} ms"
