from __future__ import annotations

import pytest

from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import BrokerId, TopicPartition
from ottla.replication.leader_offsets import LeaderOffsets, ask_leader_offsets
from tests.support.led_partition import append, lead_two_replicas, new_partition
from tests.support.simulated_broker import SimulatedBroker, with_broker

T0 = TopicPartition("t", 0)
FOLLOWER = BrokerId(2)


def test_a_real_leader_tells_the_end_of_its_log_though_it_is_not_committed() -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await new_partition(broker)
        await lead_two_replicas(partition, broker, isr=(1, 2))
        append(partition, b"a", b"b", acks=1)
        assert partition.high_watermark == 0
        connection = await broker.connect()
        asked = await ask_leader_offsets(connection, FOLLOWER, T0, leader_epoch=1)
        assert asked == LeaderOffsets(0, 2)

    with_broker(test)


def test_a_leader_in_another_epoch_tells_nothing() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await new_partition(broker)
        connection = await broker.connect()
        with pytest.raises(KafkaError) as caught:
            await ask_leader_offsets(connection, FOLLOWER, T0, leader_epoch=3)
        assert caught.value.code is ErrorCode.UNKNOWN_LEADER_EPOCH

    with_broker(test)
