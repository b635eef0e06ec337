"""The guard is on in all tests (`tests/conftest.py`)."""

from __future__ import annotations

import asyncio
import random
from typing import cast

import pytest

from ottla.kernel.workers import ThreadWorkers
from ottla.replication.partition import Partition
from ottla.storage.log import Log
from ottla.testing.loop import VirtualLoop, run_virtual
from ottla.testing.loop_thread import MUTATORS, guard_mutators
from ottla.testing.workers import SimulatedWorkers


class _Changed:
    """In the place of a partition."""

    high_watermark = 0
    _unreplicated = ()
    watchers = ()


def change(partition: _Changed) -> None:
    Partition.advance_high_watermark(cast("Partition", partition), 5, 0)


def test_what_is_changed_on_the_loop_or_without_one_is_changed() -> None:
    async def on_loop() -> None:
        change(partition)

    partition = _Changed()
    change(partition)
    asyncio.run(on_loop())
    assert partition.high_watermark == 5


def test_a_worker_must_not_change_it() -> None:
    async def main() -> None:
        workers = ThreadWorkers()
        with pytest.raises(AssertionError, match="off the loop"):
            await workers.submit(change, _Changed())
        workers.close()

    asyncio.run(main())


def test_neither_may_a_simulated_one() -> None:
    async def main(loop: VirtualLoop) -> None:
        workers = SimulatedWorkers(loop, random.Random(0))
        with pytest.raises(AssertionError, match="off the loop"):
            await workers.submit(change, _Changed())
        change(_Changed())

    run_virtual(main)


def test_all_mutators_are_guarded() -> None:
    replaced: list[tuple[type, str]] = []
    guard_mutators(lambda owner, name, guarded: replaced.append((owner, name)))
    assert (Log, "truncate_to") in replaced
    assert len(replaced) == sum(map(len, MUTATORS.values()))
