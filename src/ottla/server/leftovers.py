"""What large requests leave behind, freed a little at a time.

To free a message of a hundred thousand elements takes a tenth of a second, and Python does it in
one go, when the last reference to it is dropped.
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import cache

from ottla.wire.codec import Pause
from ottla.wire.schema import Array, Nested, Struct

_AT_ONCE = 512


class Leftovers:
    """Owned by the dispatcher. Elements of messages that are done with; some may live on elsewhere,
    and are none the worse for having been here."""

    def __init__(self) -> None:
        # The outer before what is within them, and freed in this order: the list of an outer one
        # that went last would free all that is within at once.
        self._chunks: deque[list[object]] = deque()
        self._is_freeing = False

    async def take(self, message: Struct, pause: Pause) -> None:
        """Whoever calls this drops the message afterwards."""
        waiting = [message]
        chunks: list[list[object]] = []
        chunk: list[object] = []
        steps = 0
        while waiting:
            struct = waiting.pop()
            for name, has_arrays in _arrays_of(type(struct)):
                elements = getattr(struct, name) or ()
                for first in range(0, len(elements), _AT_ONCE):
                    chunk += elements[first : first + _AT_ONCE]
                    if len(chunk) >= _AT_ONCE:
                        chunks.append(chunk)
                        chunk = []
                if has_arrays:
                    waiting += elements
            steps += 1
            if not steps % _AT_ONCE:
                await pause()
        # Not before, since others of before are freed meanwhile, and the message keeps its own.
        self._chunks += [*chunks, chunk]
        if not self._is_freeing:
            self._is_freeing = True
            self._free_later()

    def _free_later(self) -> None:
        asyncio.get_running_loop().call_soon(self._free_some)

    def _free_some(self) -> None:
        self._chunks.popleft()
        if self._chunks:
            self._free_later()
        else:
            self._is_freeing = False


@cache
def _arrays_of(cls: type[Struct]) -> tuple[tuple[str, bool], ...]:
    """The names of its arrays, and whether their elements have arrays again."""
    return tuple(
        (
            field.name,
            isinstance(field.type.element, Nested) and bool(_arrays_of(field.type.element.struct)),
        )
        for field in cls.FIELDS
        if isinstance(field.type, Array)
    )
