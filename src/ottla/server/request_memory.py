"""What all unfinished requests of a broker may hold in memory (`queued.max.request.bytes`)."""

from __future__ import annotations

from collections.abc import Callable, Hashable


class RequestMemory:
    """One for a broker. Whoever finds it used up waits its turn, in order; whoever is let in
    stays in until its request is whole, so those inside always finish."""

    def __init__(self, byte_count_max: int) -> None:
        self._free = byte_count_max
        self._byte_count_max = byte_count_max
        self._waiting: dict[Hashable, tuple[int, Callable[[], None]]] = {}

    def acquire(self, owner: Hashable, byte_count: int, on_granted: Callable[[], None]) -> bool:
        """False: wait for the callback. A request larger than the whole is let in alone."""
        if not self._waiting and self._fits(byte_count):
            self._free -= byte_count
            return True
        self._waiting[owner] = (byte_count, on_granted)
        return False

    def is_waiting(self, owner: Hashable) -> bool:
        return owner in self._waiting

    def release(self, owner: Hashable, byte_count: int) -> None:
        if self._waiting.pop(owner, None) is not None:
            return  # It was never let in.
        self._free += byte_count
        while self._waiting:
            first = next(iter(self._waiting))
            wanted, on_granted = self._waiting[first]
            if not self._fits(wanted):
                return
            del self._waiting[first]
            self._free -= wanted
            on_granted()

    def _fits(self, byte_count: int) -> bool:
        return byte_count <= self._free or self._free == self._byte_count_max
