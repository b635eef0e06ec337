"""Records and bytes a second, for programs and for people."""

from __future__ import annotations

_SHORTEST_S = 1e-6


def rate_fields(records: int, size_bytes: int, seconds: float) -> dict[str, float]:
    return {
        "seconds": round(seconds, 3),
        "records_per_s": round(records / max(seconds, _SHORTEST_S), 1),
        "mb_per_s": round(size_bytes / max(seconds, _SHORTEST_S) / 1e6, 3),
    }


def rate_facts(records: int, size_bytes: int, seconds: float) -> list[tuple[str, str]]:
    rate = records / max(seconds, _SHORTEST_S)
    mb_rate = size_bytes / max(seconds, _SHORTEST_S) / 1e6
    return [
        ("records", f"{records:,} in {seconds:.2f} s"),
        ("rate", f"{rate:,.0f} records/s, {mb_rate:,.1f} MB/s"),
    ]


def cut_short_text(records: int, size_bytes: int, seconds: float, leftover: str) -> str:
    facts = ", ".join(text for _, text in rate_facts(records, size_bytes, seconds))
    return f"until it was stopped: {facts}{leftover and f'; {leftover}'}"
