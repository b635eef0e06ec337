"""What an administrator does to a cluster while it is disturbed: topics come and go, grow and
change, partitions move, records are deleted, leaders are elected. One of the topics that come and
go is written to: what was in it does not come back with its name."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence

from ottla.kernel.ids import TopicPartition
from ottla.records.builder import build_batch
from ottla.records.record import Record
from ottla.testing.history.replica_log import ReplicaLog
from ottla.testing.simulation.admin import Admin
from ottla.testing.simulation.client import Refused, SimulatedClient
from ottla.testing.simulation.reading import list_end_offset
from ottla.testing.simulation.sending import send_batch

CHURNED = "churned"
_PARTITION = TopicPartition(CHURNED, 0)
_SETTINGS = (
    ("flush.messages", "1"),
    ("flush.messages", "1000"),
    ("compression.type", "gzip"),
    ("compression.type", "producer"),
    ("segment.ms", "500"),
    ("max.compaction.lag.ms", "60000"),
)


class Churn:
    """Owned by a run."""

    def __init__(
        self,
        client: SimulatedClient,
        partitions: Sequence[TopicPartition],
        broker_ids: Sequence[int],
        now_ms: Callable[[], int],
    ) -> None:
        """Of topics that others write to: those stay, and these partitions of them."""
        self._client = client
        self._admin = Admin(client)
        self._rng = client.rng
        self._partitions = partitions
        self._broker_ids = broker_ids
        self._now_ms = now_ms
        self._partition_counts = {
            topic: sum(each.topic == topic for each in partitions)
            for topic in sorted({each.topic for each in partitions})
        }
        self._acknowledged: list[str] = []
        self._count = 0
        self._gone: set[str] = set()

    async def run(self) -> None:
        """For ever."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._change())
            tasks.create_task(self._write())

    async def _change(self) -> None:
        steps = (
            self._create,
            self._create,
            self._delete,
            self._grow,
            self._move,
            self._move,
            self._delete_records,
            self._delete_records,
            self._admin.elect_preferred_leaders,
            self._alter,
        )
        while True:
            await asyncio.sleep(self._rng.uniform(0, 1.5))
            await self._rng.choice(steps)()

    async def _create(self) -> None:
        await self._admin.create_topic(CHURNED, 1, 3, {})

    async def _delete(self) -> None:
        written = list(self._acknowledged)
        self._client.note(f"delete {CHURNED} with {len(written)} records")
        if await self._admin.delete_topic(CHURNED):
            self._client.note(f"{CHURNED} is deleted")
            self._gone.update(written)

    async def _grow(self) -> None:
        topic = self._rng.choice(sorted(self._partition_counts))
        self._partition_counts[topic] += 1
        await self._admin.grow_topic(topic, self._partition_counts[topic])

    async def _move(self) -> None:
        replicas = self._rng.sample(self._broker_ids, 3)
        partition = self._rng.choice(self._partitions)
        self._client.note(f"move {partition} to {replicas}")
        await self._admin.move_partition(partition, replicas)

    async def _delete_records(self) -> None:
        partition = self._rng.choice(self._partitions)
        end = await self._client.insist(
            lambda: list_end_offset(self._client, partition), gives_up_on=frozenset()
        )
        before = self._rng.randint(0, end)
        self._client.note(f"delete records of {partition} before {before}")
        start = await self._admin.delete_records(partition, before)
        if start is not None:
            self._client.note(f"{partition} starts at {start}")

    async def _alter(self) -> None:
        topic = self._rng.choice(sorted(self._partition_counts))
        key, value = self._rng.choice(_SETTINGS)
        self._client.note(f"{topic} gets {key}={value}")
        await self._admin.alter_topic(topic, key, value)

    # -- the topic that comes and goes ------------------------------------------------------------

    async def _write(self) -> None:
        """Each value once, and no matter whether it gets there."""
        while True:
            self._count += 1
            value = f"churned:{self._count}"
            batch = bytes(build_batch([Record(0, self._now_ms(), None, value.encode())]))
            try:
                await send_batch(self._client, _PARTITION, batch)
            except (OSError, Refused):
                self._client.forget_leader(_PARTITION)
                self._client.leader_epochs.pop(_PARTITION, None)  # Of another topic with its name.
            else:
                self._acknowledged.append(value)
            await asyncio.sleep(self._rng.uniform(0, 0.2))

    def problems(self, logs: Iterable[ReplicaLog]) -> list[str]:
        """When all is over. A start offset may have gone back: as in Kafka it is written down now
        and then, so that brokers killed together forget it."""
        found = []
        for log in logs:
            where = f"{log.partition} on broker {log.broker_id}"
            values = {value for batch in log.batches for _, value in batch.values}
            if back := sorted(values & self._gone):
                found.append(f"{where} has {back}, of a topic that was deleted")
        return found
