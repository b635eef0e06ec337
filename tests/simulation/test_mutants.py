"""Bugs that this broker has had, put back one at a time: the simulation must find each of them.

What it cannot find it does not guard. A mutation that no longer applies fails, too.
"""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict, deque
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from ottla.coordinators.result import Result
from ottla.coordinators.shard import Shard, Transaction
from ottla.replication.leader import Leader
from ottla.replication.uncommitted import Step
from ottla.server.connection import UNANSWERED_COUNT_MAX, Connection
from ottla.storage import retention
from ottla.storage.log import Log
from ottla.wire.api import ApiKey
from tests.simulation.test_order_and_wholeness import run_seed
from tests.support.counts import count

SEEDS_MAX = 100
FIRST_SEEDS = range(0, count(5 * SEEDS_MAX, SEEDS_MAX), SEEDS_MAX)


class Mutant(NamedTuple):
    mutate: Callable[[pytest.MonkeyPatch], None]
    seen_as: str
    """What the failure says: it is to be found as itself."""


def side_by_side(patch: pytest.MonkeyPatch) -> None:
    """Requests of a connection began whether or not those before them had had their effect."""

    def may_begin(self: Connection, frame: memoryview) -> bool:
        return len(self._slots) < UNANSWERED_COUNT_MAX

    patch.setattr(Connection, "_may_begin", may_begin)


def turn_given_away(patch: pytest.MonkeyPatch) -> None:
    """Commits of a connection waited in their shard for the one before to be written. When it was,
    the next in the queue was woken, and whoever came before it awoke was first."""
    may_begin = Connection._may_begin

    def may_begin_or_commits(self: Connection, frame: memoryview) -> bool:
        return int.from_bytes(frame[:2]) == ApiKey.OFFSET_COMMIT or may_begin(self, frame)

    patch.setattr(Connection, "_may_begin", may_begin_or_commits)
    write = Shard.write
    waiting: defaultdict[Shard[Any], deque[asyncio.Future[None]]] = defaultdict(deque)
    writing: set[Shard[Any]] = set()

    async def write_in_turn(
        self: Shard[Any], operation: Callable[[Any], Result[Any]], within: Transaction | None = None
    ) -> Any:
        while self in writing:
            turn = asyncio.get_running_loop().create_future()
            waiting[self].append(turn)
            await turn
        writing.add(self)
        try:
            return await write(self, operation, within)
        finally:
            writing.discard(self)
            while waiting[self]:
                turn = waiting[self].popleft()
                if not turn.done():
                    turn.set_result(None)
                    break

    patch.setattr(Shard, "write", write_in_turn)


def answers_before_commits(patch: pytest.MonkeyPatch) -> None:
    """What a coordinator has only given a place in the log is answered."""

    async def committed(*_: Any, **__: Any) -> None:
        pass

    patch.setattr(Shard, "_committed", committed)


def operation_in_parts(patch: pytest.MonkeyPatch) -> None:
    """An operation of a coordinator was written in as many batches as it took, and the third could
    fail, or a kill come, with two of them in the log."""
    append = Shard._append

    def split(self: Shard[Any], result: Result[Any], within: Transaction | None) -> Any:
        result.is_atomic = False
        return append(self, result, within)

    patch.setattr(Shard, "_append", split)


def retention_of_pending(patch: pytest.MonkeyPatch) -> None:
    """Retention compared with the end of what is written, and took the segment that an append was
    pending in."""

    def end_offsets(log: Log) -> list[int]:
        return [*(segment.base_offset for segment in log.segments[1:]), log.log_end_offset]

    patch.setattr(retention, "_end_offsets", end_offsets)


def acknowledged_unsynced(patch: pytest.MonkeyPatch) -> None:
    """Appends are acknowledged when they are written, whatever `flush.messages` says."""

    def sync(self: Leader, step: Step) -> None:
        self._uncommitted.finish(step)

    patch.setattr(Leader, "_sync", sync)


MUTANTS = [
    Mutant(side_by_side, "was asked for its end behind records"),
    Mutant(turn_given_away, "has committed"),
    Mutant(answers_before_commits, "has committed"),
    Mutant(operation_in_parts, "is there in part"),
    Mutant(retention_of_pending, "the retention of .*brief"),
    Mutant(acknowledged_unsynced, "two values|is lost|has committed|ended at|lost its end"),
]


@pytest.mark.parametrize("first_seed", FIRST_SEEDS)
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.mutate.__name__)
def test_it_is_found(mutant: Mutant, first_seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant.mutate(monkeypatch)
    for seed in range(first_seed, first_seed + SEEDS_MAX):
        try:
            run_seed(seed)
        except AssertionError as error:
            if re.search(mutant.seen_as, str(error)):
                print(f"found by the {seed - first_seed + 1}. seed")
                return
            if re.search("TypeError|AttributeError|NameError", str(error)):
                pytest.fail(f"the mutation no longer fits the code: {error}")
    pytest.fail(f"none of {SEEDS_MAX} seeds has found it")
