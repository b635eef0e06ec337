"""What Java computes and Kafka relies on."""

from __future__ import annotations

import struct
from functools import lru_cache


def string_hash(text: str) -> int:
    """`String.hashCode()`: over UTF-16 code units, as a signed 32-bit number."""
    encoded = text.encode("utf-16-le", "surrogatepass")
    value = 0
    for unit in struct.unpack(f"<{len(encoded) // 2}H", encoded):
        value = (value * 31 + unit) & 0xFFFF_FFFF
    return value - 0x1_0000_0000 if value & 0x8000_0000 else value


@lru_cache(maxsize=512)
def abs_hash(text: str) -> int:
    """Kafka's `Utils.abs(hashCode())`: the one hash that has no positive twin becomes 0. It is
    asked for with every request of a group or a transactional id, of which few are at work."""
    value = string_hash(text)
    return 0 if value == -0x8000_0000 else abs(value)
