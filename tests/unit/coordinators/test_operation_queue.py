from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ottla.coordinators.operation_queue import OperationQueue
from ottla.kernel.clock import SystemClock
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.slices import STEPS_MAX, Steps

LONG = 3 * STEPS_MAX


class Operations:
    """Each notes its beginning and its end."""

    def __init__(self) -> None:
        self.queue = OperationQueue(SystemClock())
        self.seen: list[str] = []

    def steps(self, name: str, count: int, error: Exception | None = None) -> Steps[str]:
        self.seen.append(f"{name} begins")
        for _ in range(count):
            yield
        if error is not None:
            raise error
        self.seen.append(f"{name} ends")
        return name

    async def run(self, name: str, count: int = 0, error: Exception | None = None) -> str:
        if self.queue.is_busy:
            await self.queue.turn()
        done = self.queue.run(self.steps(name, count, error))
        return await asyncio.shield(done) if isinstance(done, asyncio.Task) else done


def test_what_is_short_is_done_where_it_is_called() -> None:
    async def main() -> None:
        operations = Operations()
        assert operations.queue.run(operations.steps("a", 100)) == "a"
        assert not operations.queue.is_busy

    asyncio.run(main())


def test_who_comes_during_a_long_one_waits_in_order() -> None:
    async def main() -> None:
        operations = Operations()
        names = ["long", "b", "also long", "d"]
        counts = [LONG, 0, LONG, 0]
        answers = await asyncio.gather(*map(operations.run, names, counts))
        assert answers == names
        assert operations.seen == [
            f"{name} {what}" for name in names for what in ("begins", "ends")
        ]
        assert not operations.queue.is_busy

    asyncio.run(main())


def test_one_that_comes_when_the_turn_is_handed_on_does_not_overtake() -> None:
    async def main() -> None:
        operations = Operations()
        long = asyncio.create_task(operations.run("long", LONG))
        await asyncio.sleep(0)
        waiting = asyncio.create_task(operations.run("waiting"))
        await asyncio.sleep(0)
        while "long ends" not in operations.seen:
            await asyncio.sleep(0)
        assert "waiting begins" not in operations.seen
        assert operations.queue.is_busy
        await operations.run("late")
        await asyncio.gather(long, waiting)
        assert operations.seen[-4:-2] == ["waiting begins", "waiting ends"]

    asyncio.run(main())


def test_one_whose_client_has_gone_is_done_to_its_end() -> None:
    async def main() -> None:
        operations = Operations()
        gone = asyncio.create_task(operations.run("long", LONG))
        waiting = asyncio.create_task(operations.run("waiting"))
        next_one = asyncio.create_task(operations.run("next"))
        await asyncio.sleep(0)
        gone.cancel()
        waiting.cancel()
        assert await next_one == "next"
        assert operations.seen == ["long begins", "long ends", "next begins", "next ends"]

    asyncio.run(main())


def test_a_turn_that_has_come_to_one_who_has_gone_is_passed_on() -> None:
    async def main() -> None:
        operations = Operations()
        long = asyncio.create_task(operations.run("long", LONG))
        await asyncio.sleep(0)
        gone = asyncio.create_task(operations.run("gone"))
        next_one = asyncio.create_task(operations.run("next"))
        await asyncio.sleep(0)
        while "long ends" not in operations.seen:
            await asyncio.sleep(0)
        gone.cancel()
        assert await asyncio.wait_for(next_one, 60) == "next"
        assert await long == "long"
        assert "gone begins" not in operations.seen
        assert not operations.queue.is_busy

    asyncio.run(main())


def test_one_who_goes_when_its_turn_is_gone_goes_quietly() -> None:
    async def main() -> None:
        operations = Operations()
        long = asyncio.create_task(operations.run("long", LONG))
        await asyncio.sleep(0)
        gone = asyncio.create_task(operations.run("gone"))
        await asyncio.sleep(0)
        gone.cancel()
        operations.queue.close()
        answers = await asyncio.gather(gone, long, return_exceptions=True)
        assert [type(answer) for answer in answers] == [asyncio.CancelledError, KafkaError]

    asyncio.run(main())


@pytest.mark.parametrize("count", [0, LONG])
def test_an_error_is_its_own_only(count: int) -> None:
    async def main() -> None:
        operations = Operations()
        error = KafkaError(ErrorCode.INVALID_REQUEST)
        answers: Any = await asyncio.gather(
            operations.run("bad", count, error), operations.run("good"), return_exceptions=True
        )
        assert list(answers) == [error, "good"]
        assert not operations.queue.is_busy

    asyncio.run(main())


def test_all_hear_of_the_loss_of_the_shard() -> None:
    async def main() -> None:
        operations = Operations()
        names = ["long", "waiting", "next"]
        running = [asyncio.create_task(operations.run(name, LONG)) for name in names]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        operations.queue.close()
        for answer in await asyncio.gather(*running, return_exceptions=True):
            assert isinstance(answer, KafkaError)
            assert answer.code is ErrorCode.NOT_COORDINATOR
        assert operations.seen == ["long begins"]

    asyncio.run(main())
