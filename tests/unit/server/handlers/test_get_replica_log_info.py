from __future__ import annotations

from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import TopicId
from ottla.wire.messages.get_replica_log_info import (
    GetReplicaLogInfoRequest,
    GetReplicaLogInfoResponse,
    TopicPartitions,
)
from tests.support.simulated_broker import SimulatedBroker, with_broker


def test_a_broker_says_where_its_logs_end() -> None:
    async def test(broker: SimulatedBroker) -> None:
        topic_id = await broker.create_topic("t")
        await broker.produce("t", b"a", b"b")
        unknown = TopicId(b"u" * 16)
        request = GetReplicaLogInfoRequest(
            topic_partitions=[
                TopicPartitions(topic_id=topic_id, partitions=[0, 1]),
                TopicPartitions(topic_id=unknown, partitions=[0]),
            ]
        )

        response = await broker.call(request, GetReplicaLogInfoResponse)

        assert response.broker_epoch == broker.broker_epoch
        assert not response.truncated
        known, other = response.topic_partition_log_info_list
        assert (known.topic_id, other.topic_id) == (topic_id, unknown)
        there, missing = known.partition_log_info
        assert (there.partition, there.error_code, there.log_end_offset) == (0, 0, 2)
        assert there.last_written_leader_epoch == there.current_leader_epoch >= 0
        assert (missing.partition, missing.error_code) == (1, ErrorCode.REPLICA_NOT_AVAILABLE)
        (stranger,) = other.partition_log_info
        assert stranger.error_code == ErrorCode.UNKNOWN_TOPIC_ID
        for nothing in (missing, stranger):
            assert nothing.log_end_offset == nothing.last_written_leader_epoch == -1

    with_broker(test)


def test_nothing_is_asked_for() -> None:
    async def test(broker: SimulatedBroker) -> None:
        request = GetReplicaLogInfoRequest(topic_partitions=None)
        response = await broker.call(request, GetReplicaLogInfoResponse)
        assert response.topic_partition_log_info_list == []

    with_broker(test)
