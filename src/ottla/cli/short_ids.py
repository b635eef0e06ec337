"""Ids of members as people need them: as much of each as tells it from the others."""

from __future__ import annotations

import re
from collections.abc import Iterable

# The broker makes them: CLIENT-UUID in the classic protocol; clients do in KIP-848, 16 bytes in
# base64 or a UUID alone.
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_CHARS_MIN = 6


def short_ids(ids: Iterable[str]) -> dict[str, str]:
    """By id. The client, which others share, is left out where the rest is random.

    >>> short_ids(["app-4c5d0f67-1b1f-4a0e-8a4b-3d5a0e1f2a3b", "Zm9vYmFyYmF6cXV4cXV1eA"])
    {'app-4c5d0f67-1b1f-4a0e-8a4b-3d5a0e1f2a3b': '4c5d0f', 'Zm9vYmFyYmF6cXV4cXV1eA': 'Zm9vYm'}
    """
    unique = list(dict.fromkeys(ids))
    tails = {one: _random_part(one) for one in unique}
    longest = max(map(len, tails.values()), default=0)
    for length in range(_CHARS_MIN, longest):
        shortened = {one: tail[:length].rstrip("-_.") for one, tail in tails.items()}
        if len(set(shortened.values())) == len(unique):
            return shortened
    return {one: one for one in unique}


def _random_part(id: str) -> str:
    found = _UUID.search(id, max(0, len(id) - 36))
    return found.group() if found is not None else id
