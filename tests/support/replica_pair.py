"""Two logs, here of two topics of one broker: `leads` is the leader's, `follows` the follower's."""

from __future__ import annotations

import pytest

from ottla.kernel.disk import FileSlice
from ottla.kernel.ids import BrokerId
from ottla.replication.follower import Follower
from ottla.replication.partition import Partition
from tests.support.simulated_broker import SimulatedBroker

OTHER = BrokerId(2)


class Pair:
    def __init__(self, broker: SimulatedBroker, leads: Partition, follows: Partition) -> None:
        self.broker = broker
        self.leads = leads
        self.follows = follows

    @property
    def follower(self) -> Follower:
        assert self.follows.follower is not None
        return self.follows.follower

    async def lead(self, partition: Partition, leader_epoch: int) -> None:
        await self.broker.machine.broker.replicas.become_leader(
            partition.topic_partition,
            partition.topic_id,
            partition.log.config,
            leader_epoch=leader_epoch,
            replicas=(BrokerId(1),),
            isr=(BrokerId(1),),
            partition_epoch=leader_epoch,
            is_new=False,
        )

    async def follow(self, leader_epoch: int) -> None:
        await self.broker.machine.broker.replicas.become_follower(
            self.follows.topic_partition,
            self.follows.topic_id,
            self.follows.log.config,
            leader_id=OTHER,
            leader_epoch=leader_epoch,
            is_new=False,
        )

    async def fetch(self, high_watermark: int | None = None) -> None:
        """Until both are alike, as the fetches of a real follower would make them. The leader tells
        its high watermark, or this one."""
        for _ in range(10):
            position = self.follower.position
            epoch, end_offset = self.leads.log.end_offset_for_epoch(position.last_fetched_epoch)
            if position.last_fetched_epoch >= 0 and (
                epoch < position.last_fetched_epoch or end_offset < position.offset
            ):
                await self.follower.truncate(epoch, end_offset)
                continue
            await self.follower.append(
                self.records(position.offset),
                leader_high_watermark=(
                    self.leads.high_watermark if high_watermark is None else high_watermark
                ),
                leader_log_start_offset=self.leads.log.log_start_offset,
            )
            if self.follower.position.offset == self.leads.log.log_end_offset:
                return
        pytest.fail("the logs do not come together")

    def records(self, offset: int) -> memoryview:
        found = self.leads.log.read(
            offset, 1 << 20, max_offset=self.leads.log.log_end_offset, at_least_one=True
        )
        if found is None:
            return memoryview(b"")
        assert isinstance(found, FileSlice)
        return memoryview(found.read())

    def contents(self) -> tuple[bytes, bytes]:
        return self._content(self.leads), self._content(self.follows)

    def _content(self, partition: Partition) -> bytes:
        return b"".join(
            self.broker.machine.disk.read_file(f"{partition.log.path}/{each.base_offset:020}.log")
            for each in partition.log.segments
        )


async def make_pair(broker: SimulatedBroker, **config: str) -> Pair:
    await broker.create_topic("leads", 1)
    await broker.create_topic("follows", 1, **config)
    replicas = broker.machine.broker.replicas
    return Pair(broker, replicas.partition("leads", 0), replicas.partition("follows", 0))
