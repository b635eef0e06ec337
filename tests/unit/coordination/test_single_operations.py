from __future__ import annotations

import asyncio
from collections.abc import Sequence

from ottla.coordination.single_operations import SingleOperations
from ottla.coordination.store import Create, Delete, Operation, Set


class Recorder(SingleOperations):
    def __init__(self) -> None:
        self.asked: list[Operation] = []

    async def multi(self, operations: Sequence[Operation]) -> list[str | int | None]:
        self.asked += operations
        answers: list[str | int | None] = []
        for operation in operations:
            match operation:
                case Create():
                    answers.append(f"{operation.path}0000000007")
                case Set():
                    answers.append(operation.version + 1)
                case _:
                    answers.append(None)
        return answers


def test_each_is_a_multi_of_one() -> None:
    async def test() -> None:
        store = Recorder()
        assert await store.create("/a", b"x", ephemeral=True, sequential=True) == "/a0000000007"
        assert await store.set("/a", b"y", 3) == 4
        await store.delete("/a", 4)
        assert store.asked == [
            Create("/a", b"x", True, True),
            Set("/a", b"y", 3),
            Delete("/a", 4),
        ]

    asyncio.run(test())
