"""A partition of a simulated broker that leads it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ottla.kernel.errors import KafkaError
from ottla.kernel.ids import BrokerId
from ottla.replication.partition import Partition
from ottla.storage.pending_write import Appended
from tests.support.simulated_broker import SimulatedBroker, make_batch


async def new_partition(broker: SimulatedBroker, **config: str) -> Partition:
    await broker.create_topic("t", 1, **config)
    return broker.machine.broker.replicas.partition("t", 0)


async def lead_two_replicas(
    partition: Partition,
    broker: SimulatedBroker,
    isr: tuple[int, ...] = (1,),
    *,
    leader_epoch: int = 1,
) -> Partition:
    """Of which broker 2 has the other."""
    return await lead_replicas(partition, broker, (1, 2), isr, leader_epoch=leader_epoch)


async def lead_replicas(
    partition: Partition,
    broker: SimulatedBroker,
    replicas: tuple[int, ...],
    isr: tuple[int, ...],
    *,
    leader_epoch: int = 1,
) -> Partition:
    """All brokers are registered in epoch 5."""
    manager = broker.machine.broker.replicas
    manager._broker_epochs = lambda broker_id: 5
    return await manager.become_leader(
        partition.topic_partition,
        partition.topic_id,
        partition.log.config,
        leader_epoch=leader_epoch,
        replicas=tuple(BrokerId(each) for each in replicas),
        isr=tuple(BrokerId(each) for each in isr),
        partition_epoch=leader_epoch,
        is_new=False,
    )


def append(
    partition: Partition, *values: bytes, acks: int = -1
) -> Appended | asyncio.Future[Appended]:
    return partition.leader.append(memoryview(make_batch(*values)), acks=acks, produce_version=12)


def append_later(partition: Partition, *values: bytes) -> asyncio.Future[Appended]:
    appended = append(partition, *values)
    assert isinstance(appended, asyncio.Future)
    return appended


async def committed(partition: Partition) -> None:
    done: asyncio.Future[KafkaError | None] = asyncio.get_running_loop().create_future()
    partition.leader.when_committed(done.set_result)
    assert await done is None


def become_slow(partition: Partition) -> None:
    """As after a write that took a second: appends wait their turn off the loop."""
    partition.log.folder.wrote(1.0)


class Watching:
    def __init__(self) -> None:
        self.byte_counts: list[int] = []
        self.closed: list[Partition] = []
        self.on_added: Callable[[], None] = lambda: None

    def records_added(self, partition: Partition, byte_count: int) -> None:
        self.byte_counts.append(byte_count)
        self.on_added()

    def partition_closed(self, partition: Partition) -> None:
        self.closed.append(partition)


def fetched(partition: Partition, offset: int, *, by: int = 2, log_start_offset: int = 0) -> None:
    """A broker has asked for records from there on."""
    partition.leader.follower_fetched(
        BrokerId(by), offset, log_start_offset=log_start_offset, broker_epoch=5
    )
