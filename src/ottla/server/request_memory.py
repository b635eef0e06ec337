"""What all unfinished requests of a broker may hold in memory (`queued.max.request.bytes`)."""

from __future__ import annotations

from collections.abc import Callable, Hashable


class RequestMemory:
    """One for a broker. Counts what is really held, not what clients promise to send: a promise
    costs four bytes. Whoever needs more than there is waits its turn, in order, and keeps what it
    has. When all who hold something wait, the first goes on nevertheless, else none would finish.
    `on_used_up` is called when somebody has to wait, to look after those who could go on."""

    def __init__(self, byte_count_max: int, on_used_up: Callable[[], None]) -> None:
        self._free = byte_count_max
        self._on_used_up = on_used_up
        self._held: dict[Hashable, int] = {}
        self._waiting: dict[Hashable, tuple[int, Callable[[], None]]] = {}

    @property
    def is_used_up(self) -> bool:
        return bool(self._waiting)

    def is_waiting(self, owner: Hashable) -> bool:
        return owner in self._waiting

    def hold(self, owner: Hashable, byte_count: int, on_granted: Callable[[], None]) -> bool:
        """From now on the owner holds this much. False: it must wait for the callback first."""
        more = byte_count - self._held.get(owner, 0)
        if more <= 0 or (not self._waiting and more <= self._free):
            self._set(owner, byte_count)
            self._let_in()
            return True
        is_granted = False

        def grant() -> None:
            nonlocal is_granted
            is_granted = True

        self._waiting[owner] = (byte_count, grant)
        self._let_in()
        if is_granted:
            return True
        self._waiting[owner] = (byte_count, on_granted)
        self._on_used_up()
        return False

    def release(self, owner: Hashable) -> None:
        """It holds nothing any more, and waits for nothing."""
        self._waiting.pop(owner, None)
        self._set(owner, 0)
        self._let_in()

    def _set(self, owner: Hashable, byte_count: int) -> None:
        self._free -= byte_count - self._held.pop(owner, 0)
        if byte_count:
            self._held[owner] = byte_count

    def _let_in(self) -> None:
        while self._waiting:
            owner = next(iter(self._waiting))
            byte_count, on_granted = self._waiting[owner]
            if byte_count - self._held.get(owner, 0) > self._free:
                if self._held.keys() - self._waiting.keys():
                    return
                # Of all who wait, one that has begun: it gives back what it holds when it is done.
                owner = next((one for one in self._waiting if one in self._held), owner)
                byte_count, on_granted = self._waiting[owner]
            del self._waiting[owner]
            self._set(owner, byte_count)
            on_granted()
