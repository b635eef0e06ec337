"""The whole broker on fakes, in virtual time, with a disk that has slow phases, a busy loop and
small segments: what clients sent takes effect in its order and as a whole, over kills and losses of
power.

A seed makes the run, and draws its settings. A failure prints the seed.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from ottla.kernel.errors import ErrorCode
from ottla.kernel.internal_topics import CONSUMER_OFFSETS
from ottla.server.resources import ResourceType
from ottla.testing.loop import VirtualLoop, run_virtual
from ottla.testing.machine import SimulatedMachine
from ottla.testing.network import SimulatedNetwork
from ottla.testing.store import MemoryEnsemble
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.support.counts import count
from tests.support.ordered_effects import (
    COMMITTED_PARTITIONS,
    PORT,
    Appender,
    Backfiller,
    Committer,
    TopicReplacer,
    create_request,
)
from tests.support.other_process import printed_elsewhere
from tests.support.requests_in_flight import InFlight

ROUND_COUNT = 12
MESSAGE_BYTES_MAX = 16_000
REPLACED_COUNT = 4
RUN_S_MAX = 600.0

SEEDS = range(count(300, 20))


class World:
    """One run, from a seed."""

    def __init__(self, loop: VirtualLoop, rng: random.Random) -> None:
        self.rng = rng
        self.loop = loop
        self.network = SimulatedNetwork(loop, rng)
        self._is_synced = rng.random() < 0.6
        self._segment_bytes = rng.choice((300, 1000, 5000))
        settings = {
            "listeners": f"PLAINTEXT://localhost:{PORT}",
            "log.initial.task.delay.ms": "10",
            "log.retention.check.interval.ms": "30",
            "log.flush.offset.checkpoint.interval.ms": "200",
            "log.flush.start.offset.checkpoint.interval.ms": "200",
            # Both groups in one, so that they meet; and commits that do not fit into a batch.
            "offsets.topic.num.partitions": "1",
            "message.max.bytes": str(MESSAGE_BYTES_MAX),
        }
        if self._is_synced:
            settings["log.flush.interval.messages"] = "1"
        self.machine = SimulatedMachine(
            settings, loop, rng, self.network, MemoryEnsemble(), takes_time_to_write=True
        )
        self._crash_wanted = asyncio.Event()
        self.crash_count = 0

    async def run(self) -> str:
        """What happened, in short: equal for equal seeds."""
        await self.machine.start()
        await self._prepare()
        clients: asyncio.Future[Any] = asyncio.gather(*self._clients())
        crashing: asyncio.Future[Any] = asyncio.create_task(self._crash_until(clients))
        await asyncio.wait([clients, crashing], return_when=asyncio.FIRST_COMPLETED)
        await clients  # Or what it failed with.
        await crashing
        await self.machine.stop()
        return f"{self.crash_count} crashes, {self.loop.now_s} s"

    def _config(self, **config: str) -> dict[str, str]:
        return {
            "internal.segment.bytes": str(self._segment_bytes),
            "retention.ms": "-1",
            **{name.replace("_", "."): value for name, value in config.items()},
        }

    async def _prepare(self) -> None:
        client = InFlight(self.network, PORT, self.rng)
        for name, partition_count, config in (
            ("committed", COMMITTED_PARTITIONS, {}),
            ("plain", 1, {}),
            ("squeezed", 1, {"compression_type": "gzip"}),
            ("brief", 1, {"retention_ms": "50", "file_delete_delay_ms": "20"}),
        ):
            request = create_request(name, partition_count, self._config(**config))
            created = await client.ask_one(request, 7)
            assert created.topics[0].error_code == ErrorCode.NONE, created.topics[0].error_message
        for group in ("one", "other"):
            find = FindCoordinatorRequest(coordinator_keys=[group])
            found = await client.ask_one(find, 4)
            assert found.coordinators[0].error_code == ErrorCode.NONE
        await self._shrink_segments(client, CONSUMER_OFFSETS)
        client.close()

    async def _shrink_segments(self, client: InFlight, topic: str) -> None:
        """To a few commits each."""
        config = AlterableConfig(
            name="internal.segment.bytes", value=str(self._segment_bytes + MESSAGE_BYTES_MAX)
        )
        resource = AlterConfigsResource(
            resource_type=ResourceType.TOPIC, resource_name=topic, configs=[config]
        )
        request = IncrementalAlterConfigsRequest(resources=[resource])
        altered = await client.ask_one(request, 1)
        assert altered.responses[0].error_code == ErrorCode.NONE, altered.responses[0].error_message

    def _clients(self) -> Iterator[Coroutine[Any, Any, None]]:
        network, rng = self.network, self.rng
        for group in ("one", "other"):
            yield Committer(network, rng, group, "committed").run(2 * ROUND_COUNT)
        for topic in ("plain", "squeezed"):
            yield Appender(network, rng, topic).run(ROUND_COUNT)
        yield Backfiller(network, rng, "brief").run(ROUND_COUNT)
        replacer = TopicReplacer(network, rng, "again", self._config(), self._maybe_crash)
        yield replacer.run(REPLACED_COUNT)

    def _maybe_crash(self, chance: float) -> None:
        if self.rng.random() < chance:
            self._crash_wanted.set()

    async def _crash_until(self, clients: asyncio.Future[Any]) -> None:
        while not clients.done():
            self._crash_wanted.clear()
            wanted = asyncio.create_task(self._crash_wanted.wait())
            await asyncio.wait(
                [wanted, clients],
                timeout=self.rng.uniform(0.05, 2),
                return_when=asyncio.FIRST_COMPLETED,
            )
            wanted.cancel()
            if not clients.done():
                await self._crash()

    async def _crash(self) -> None:
        self.crash_count += 1
        # What is not synced may go with the power, and nobody has promised otherwise.
        if self._is_synced and self.rng.random() < 0.5:
            self.machine.lose_power()
        else:
            self.machine.kill()
        await asyncio.sleep(self.rng.uniform(0, 0.2))
        await self.machine.start()


class _Errors(logging.Handler):
    """What the broker has to say that nobody gave it a reason for: no disk fails here."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        cause = "" if record.exc_info is None else f": {record.exc_info[1]!r}"
        self.said.append(record.getMessage() + cause)


@contextmanager
def no_errors(loop: VirtualLoop) -> Iterator[None]:
    errors = _Errors()
    loop.set_exception_handler(
        lambda _, context: errors.said.append(f"{context['message']}: {context.get('exception')}")
    )
    logger = logging.getLogger("ottla")
    logger.addHandler(errors)
    try:
        yield
        assert not errors.said, f"the broker logged {errors.said}"
    finally:
        logger.removeHandler(errors)


def run_seed(seed: int) -> str:
    rng = random.Random(seed)

    async def main(loop: VirtualLoop) -> str:
        with no_errors(loop):
            return await asyncio.wait_for(World(loop, rng).run(), RUN_S_MAX)

    return run_virtual(main, rng=rng)


@pytest.mark.parametrize("seed", SEEDS)
def test_requests_take_effect_in_order_and_as_a_whole(seed: int) -> None:
    run_seed(seed)


def test_a_seed_gives_the_same_run_in_every_process() -> None:
    code = "from tests.simulation.test_order_and_wholeness import run_seed; print(run_seed(7))"
    assert printed_elsewhere(code, hash_seed="1") == printed_elsewhere(code, hash_seed="2")
