from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.replication.append_memory import AppendMemory
from ottla.replication.append_queue import AppendQueue, QueuedAppend
from ottla.storage.pending_write import Appended
from ottla.testing.loop import run_virtual


class Queue:
    """Whose appends take a second each."""

    def __init__(self) -> None:
        self.appended: list[bytes] = []
        self.queue = AppendQueue(AppendMemory(3), self._append)

    async def _append(self, queued: QueuedAppend) -> None:
        await asyncio.sleep(1)
        self.appended.append(bytes(queued.records))
        if self.appended[-1] == b"x":
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE)
        queued.done.set_result(Appended(0, 0, -1, False))

    def add(self, records: bytes | bytearray) -> asyncio.Future[Appended]:
        done: asyncio.Future[Appended] = asyncio.get_running_loop().create_future()
        view = memoryview(records)
        return self.queue.add(QueuedAppend(view, -1, 12, None, False, None, None, None, done))


def with_queue(test: Callable[[Queue], Coroutine[Any, Any, None]]) -> None:
    run_virtual(lambda loop: test(Queue()))


def test_one_is_appended_after_the_other_and_one_that_fails_fails_alone() -> None:
    async def test(queue: Queue) -> None:
        buffer = bytearray(b"a")
        first = queue.add(buffer)
        buffer[:] = b"?"  # It may be reused.
        bad, last = queue.add(b"x"), queue.add(b"b")
        with pytest.raises(KafkaError, match="CORRUPT_MESSAGE"):
            await bad
        assert first.done()
        await last
        assert queue.appended == [b"a", b"x", b"b"]

    with_queue(test)


def test_what_waits_is_bounded() -> None:
    async def test(queue: Queue) -> None:
        waiting = [queue.add(b"a"), queue.add(b"bb")]
        with pytest.raises(KafkaError) as caught:
            queue.add(b"c")
        assert caught.value.code is ErrorCode.REQUEST_TIMED_OUT
        await asyncio.wait(waiting)
        await asyncio.sleep(0)
        await queue.add(b"ddd")

    with_queue(test)


def test_all_but_the_one_under_way_can_be_refused() -> None:
    async def test(queue: Queue) -> None:
        begun, refused = queue.add(b"a"), queue.add(b"bb")
        await asyncio.sleep(0.5)
        queue.queue.refuse_waiting(lambda: KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        with pytest.raises(KafkaError, match="NOT_LEADER_OR_FOLLOWER"):
            await refused
        assert not begun.done()
        await queue.queue.drained()
        assert (queue.appended, begun.done()) == ([b"a"], True)
        await queue.add(b"ccc")

    with_queue(test)
