"""Transactions on the whole broker, on fakes and in virtual time: copied exactly once, while it is
killed and started again.

A seed makes the run. A failure prints the seed; `SEEDS` keeps those that once failed.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import Callable
from typing import Any

import pytest

from ottla.kernel.errors import ErrorCode
from ottla.testing.loop import VirtualLoop, run_virtual
from ottla.testing.machine import SimulatedMachine
from ottla.testing.network import SimulatedNetwork
from ottla.testing.store import MemoryEnsemble
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tests.support.counts import count
from tests.support.exactly_once import (
    GROUP,
    INPUT,
    OUTPUT,
    OUTPUT_PARTITIONS,
    PORT,
    CommittedReader,
    Copier,
    Ledger,
)
from tests.support.other_process import printed_elsewhere
from tests.support.reconnecting_client import ReconnectingClient

COPIER_COUNT = 4
INPUT_COUNT = 30
KILL_COUNT = 8
REQUESTS_BETWEEN_KILLS_MAX = 80

SEEDS = [
    *range(count(200)),
    # Offsets were unstable for a moment after InitProducerId had said that all is ended.
    1022,
    # A kill came before the folder of a new log was synced, and no later start synced it.
    170,
]


class World:
    """One run, from a seed."""

    def __init__(self, loop: VirtualLoop, seed: int, settings: dict[str, str]) -> None:
        self.rng = random.Random(seed)
        self.network = SimulatedNetwork(loop, self.rng)
        self.machine = SimulatedMachine(
            {
                "listeners": f"PLAINTEXT://localhost:{PORT}",
                "log.segment.bytes": "1048576",
                "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
                # Fewer, so that copiers meet in them.
                "transaction.state.log.num.partitions": "2",
                "offsets.topic.num.partitions": "2",
                **settings,
            },
            loop,
            self.rng,
            self.network,
            MemoryEnsemble(),
        )
        self.ledger = Ledger()
        self._requests_left = 0
        self._is_enough_requested = asyncio.Event()

    async def run(self, crash: Callable[[SimulatedMachine], None]) -> str:
        """The hash of everything that was read."""
        await self.machine.start()
        await self._prepare()
        reader = CommittedReader(self.network, self.ledger)
        reading = asyncio.create_task(reader.run())
        copiers = asyncio.gather(
            *(
                Copier(
                    self.network, self.ledger, self.rng, number, INPUT_COUNT, self._requested
                ).run()
                for number in range(COPIER_COUNT)
            )
        )
        for _ in range(KILL_COUNT):
            await self._in_the_middle_of_something(copiers)
            crash(self.machine)
            await asyncio.sleep(self.rng.uniform(0, 0.2))
            await self.machine.start()
        await copiers
        reading.cancel()
        await asyncio.wait([reading])
        if not reading.cancelled():
            reading.result()
        await reader.read_to_the_end()
        reader.close()
        await self.machine.stop()
        self.ledger.check_complete()
        for number in range(COPIER_COUNT):
            assert self.ledger.copied(number) == list(range(INPUT_COUNT))
        return hashlib.sha256(repr(sorted(self.ledger.read.items())).encode()).hexdigest()

    def _requested(self) -> None:
        self._requests_left -= 1
        if self._requests_left == 0:
            self._is_enough_requested.set()

    async def _in_the_middle_of_something(self, copiers: asyncio.Future[Any]) -> None:
        """Just when the broker has a request, which it may or may not come to."""
        self._requests_left = self.rng.randint(1, REQUESTS_BETWEEN_KILLS_MAX)
        self._is_enough_requested.clear()
        enough = asyncio.create_task(self._is_enough_requested.wait())
        await asyncio.wait([enough, copiers], return_when=asyncio.FIRST_COMPLETED)
        enough.cancel()
        await asyncio.sleep(self.rng.uniform(0, 0.005))

    async def _prepare(self) -> None:
        client = ReconnectingClient(self.network, PORT)
        counts = {INPUT: COPIER_COUNT, OUTPUT: OUTPUT_PARTITIONS}
        topics = [
            CreatableTopic(name=name, num_partitions=partition_count, replication_factor=1)
            for name, partition_count in counts.items()
        ]
        request = CreateTopicsRequest(topics=topics)
        created = await client.call(request, CreateTopicsResponse, 7)
        assert [one.error_code for one in created.topics] == [ErrorCode.NONE] * 2
        for key_type, key in enumerate((GROUP, "copier-0")):
            find = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
            found = await client.call(find, FindCoordinatorResponse, 4)
            assert found.coordinators[0].error_code == ErrorCode.NONE
        client.close()


def run_seed(
    seed: int,
    crash: Callable[[SimulatedMachine], None] = SimulatedMachine.kill,
    settings: dict[str, str] | None = None,
) -> str:
    async def main(loop: VirtualLoop) -> str:
        return await World(loop, seed, settings or {}).run(crash)

    return run_virtual(main)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_committed_transaction_is_read_whole_and_once_and_no_other(seed: int) -> None:
    run_seed(seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_lost_with_the_power_where_every_batch_is_synced(seed: int) -> None:
    rng = random.Random(seed)

    def crash(machine: SimulatedMachine) -> None:
        rng.choice((machine.lose_power, machine.kill))()

    run_seed(seed, crash, {"log.flush.interval.messages": "1"})


def test_a_seed_gives_the_same_run_in_every_process() -> None:
    code = "from tests.simulation.test_transactions import run_seed; print(run_seed(7))"
    assert printed_elsewhere(code, hash_seed="1") == printed_elsewhere(code, hash_seed="2")


def test_a_loss_is_seen() -> None:
    """One broker that is alone cannot keep what it did not sync when the power fails: the same run
    must find that."""

    def run_seeds() -> None:
        for seed in range(10):
            run_seed(seed, SimulatedMachine.lose_power)

    with pytest.raises(AssertionError, match=r"offset|lost|aborted|read"):
        run_seeds()
