from __future__ import annotations

import pytest

from ottla.coordination.store import ConnectionLost, SessionExpired, StoreUnusable
from ottla.membership.session import in_session
from ottla.testing.loop import VirtualLoop, run_virtual
from ottla.testing.store import MemoryEnsemble, MemoryStore


def test_a_step_begins_anew_in_a_session_that_lives() -> None:
    async def main(loop: VirtualLoop) -> None:
        ensemble = MemoryEnsemble()
        store = MemoryStore(ensemble)
        await store.open()
        sessions = []

        async def step() -> bytes:
            sessions.append(store.session_id)
            if len(sessions) == 1:
                raise ConnectionLost("", "no answer")
            if len(sessions) == 2:
                ensemble.expire(store)
            return (await store.get("/")).data

        assert await in_session(store, step) == b""
        assert sessions == [1, 1, 2]

    run_virtual(main)


class StoreThatComesLate(MemoryStore):
    """Each of its first sessions is over before it has begun, or nobody answers."""

    def __init__(self, ensemble: MemoryEnsemble) -> None:
        super().__init__(ensemble)
        self.failures = [ConnectionLost(""), SessionExpired(""), ConnectionLost("")]

    async def open(self) -> None:
        if self.session_id and self.failures:
            raise self.failures.pop()
        await super().open()


def test_a_session_is_begun_until_it_lives() -> None:
    async def main(loop: VirtualLoop) -> None:
        store = StoreThatComesLate(MemoryEnsemble())
        await store.open()
        store._ensemble.expire(store)
        assert await in_session(store, lambda: store.exists("/"))
        assert not store.failures

    run_virtual(main)


def test_what_needs_a_person_is_raised() -> None:
    async def main(loop: VirtualLoop) -> None:
        async def step() -> None:
            raise StoreUnusable("", "no store of ours")

        with pytest.raises(StoreUnusable):
            await in_session(MemoryStore(MemoryEnsemble()), step)

    run_virtual(main)
