"""What the benchmarks read out of answers, which they decode by hand."""

from __future__ import annotations

from bench import protocol
from bench.protocol import PartitionMetadata
from ottla.kernel.ids import TopicId
from ottla.wire.codec import encoder
from ottla.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

LEADER_NOT_AVAILABLE = 5


def metadata_frame(*topics: MetadataResponseTopic) -> memoryview:
    brokers = [
        MetadataResponseBroker(node_id=number, host="a-host", port=9092) for number in (1, 2, 3)
    ]
    response = MetadataResponse(
        brokers=brokers, cluster_id="a-cluster", controller_id=2, topics=list(topics)
    )
    parts: list[bytes] = [bytes(4) + b"\0"]  # The header: correlation id, no tags.
    encoder(MetadataResponse, protocol.METADATA_VERSION)(response, parts)  # type: ignore[arg-type]
    return memoryview(b"".join(parts))


def test_brokers_controller_and_partitions_are_read_out_of_metadata() -> None:
    partitions = [
        MetadataResponsePartition(
            partition_index=0, leader_id=2, replica_nodes=[2, 3, 1], isr_nodes=[2, 3]
        ),
        MetadataResponsePartition(
            error_code=LEADER_NOT_AVAILABLE,
            partition_index=1,
            leader_id=-1,
            replica_nodes=[1],
            offline_replicas=[1],
        ),
    ]
    topic = MetadataResponseTopic(name="a", topic_id=TopicId(bytes(16)), partitions=partitions)
    found = protocol.parse_metadata(metadata_frame(topic))
    assert (found.brokers, found.controller) == ([1, 2, 3], 2)
    assert found.partitions == {
        0: PartitionMetadata(leader=2, replicas=[2, 3, 1], in_sync=[2, 3]),
        1: PartitionMetadata(leader=-1, replicas=[1], in_sync=[]),
    }


def test_a_topic_that_is_not_there_has_no_partitions() -> None:
    unknown = MetadataResponseTopic(error_code=3, name="a", topic_id=TopicId(bytes(16)))
    assert protocol.parse_metadata(metadata_frame(unknown)).partitions == {}
