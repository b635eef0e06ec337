from __future__ import annotations

import asyncio
import random

from ottla.coordination import znodes
from ottla.kernel.ids import BrokerId
from ottla.membership.log_dir_events import RETRY_S, LogDirEvents
from ottla.membership.registration import prepare_store
from ottla.testing.loop import VirtualLoop, run_virtual
from ottla.testing.store import MemoryEnsemble, MemoryStore


def test_the_controller_is_told_as_soon_as_the_store_can_be_reached() -> None:
    async def main(loop: VirtualLoop) -> None:
        ensemble = MemoryEnsemble()
        store, controller = MemoryStore(ensemble), MemoryStore(ensemble)
        await store.open()
        await controller.open()
        await prepare_store(controller, random.Random(0))
        events = LogDirEvents(store, BrokerId(7))
        ensemble.disconnect(store)
        for _ in range(3):  # Three disks, and one node: it asks for everything.
            events.tell()
        await asyncio.sleep(3 * RETRY_S)
        assert await controller.children(znodes.LOG_DIR_EVENTS) == []
        ensemble.reconnect(store)
        await asyncio.sleep(RETRY_S)
        assert await controller.children(znodes.LOG_DIR_EVENTS) == ["log_dir_event_0000000000"]
        path = f"{znodes.LOG_DIR_EVENTS}/log_dir_event_0000000000"
        data = (await controller.get(path)).data
        assert data == b'{"version":1,"broker":7,"event":1}'
        assert znodes.decode_log_dir_event(path, data) == 7
        events.tell()
        await asyncio.sleep(RETRY_S)
        assert len(await controller.children(znodes.LOG_DIR_EVENTS)) == 2
        await events.close()

    run_virtual(main)


def test_it_ends_while_the_store_is_away() -> None:
    async def main(loop: VirtualLoop) -> None:
        ensemble = MemoryEnsemble()
        store = MemoryStore(ensemble)
        await store.open()
        events = LogDirEvents(store, BrokerId(7))
        await events.close()
        ensemble.disconnect(store)
        events.tell()
        await asyncio.sleep(1)
        await events.close()

    run_virtual(main)
