from __future__ import annotations

import asyncio

import pytest

from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import BrokerId, TopicPartition
from ottla.membership.peers import Peers
from ottla.replication.leader import Marker
from ottla.server.remote_markers import RemoteMarkers
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tests.support.other_broker import OTHER, add_other_broker
from tests.support.simulated_broker import SimulatedBroker, with_broker


def peers_of(broker: SimulatedBroker) -> Peers:
    peers = broker.machine.broker._peers
    assert peers is not None
    return peers


def marker(producer_id: int, *, is_commit: bool = True) -> Marker:
    return Marker(producer_id, 3, is_commit, 7, 2)


def answer(request: WriteTxnMarkersRequest, codes: dict[int, ErrorCode]) -> WriteTxnMarkersResponse:
    """By partition; in another order than asked."""
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=asked.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            WritableTxnMarkerPartitionResult(
                                partition_index=number, error_code=codes.get(number, 0)
                            )
                            for number in topic.partition_indexes
                        ],
                    )
                    for topic in asked.topics
                ],
            )
            for asked in reversed(request.markers)
        ]
    )


def test_markers_of_many_transactions_go_in_one_request() -> None:
    async def test(broker: SimulatedBroker) -> None:
        cluster = add_other_broker(broker)
        cluster.answers[WriteTxnMarkersRequest] = lambda _, request: answer(
            request, {5: ErrorCode.NOT_LEADER_OR_FOLLOWER}
        )
        remote = RemoteMarkers(peers_of(broker))
        mine = [TopicPartition("t", 1), TopicPartition("u", 0), TopicPartition("t", 5)]
        theirs = [TopicPartition("t", 2)]
        said = await asyncio.gather(
            remote.write(OTHER, marker(10), mine),
            remote.write(OTHER, marker(11, is_commit=False), theirs),
            remote.write(OTHER, marker(10, is_commit=False), theirs),
        )
        assert list(said) == [
            {mine[0]: ErrorCode.NONE, mine[1]: ErrorCode.NONE, mine[2]: ErrorCode(6)},
            {theirs[0]: ErrorCode.NONE},
            {theirs[0]: ErrorCode.NONE},
        ]
        first, second = (request for _, request, _ in cluster.asked)
        assert isinstance(first, WriteTxnMarkersRequest)
        assert isinstance(second, WriteTxnMarkersRequest)
        # Two of one producer could not be told apart in the response.
        assert [each.producer_id for each in first.markers] == [10, 11]
        assert [each.producer_id for each in second.markers] == [10]
        sent = first.markers[0]
        assert (sent.producer_epoch, sent.transaction_result, sent.coordinator_epoch) == (
            3,
            True,
            7,
        )
        assert sent.transaction_version == 2
        assert [(one.name, one.partition_indexes) for one in sent.topics] == [
            ("t", [1, 5]),
            ("u", [0]),
        ]

    with_broker(test)


def test_a_broker_that_cannot_be_asked_is_an_error() -> None:
    async def test(broker: SimulatedBroker) -> None:
        remote = RemoteMarkers(peers_of(broker))
        with pytest.raises(KafkaError) as raised:
            await remote.write(BrokerId(7), marker(1), [TopicPartition("t", 0)])
        assert raised.value.code is ErrorCode.BROKER_NOT_AVAILABLE
        cluster = add_other_broker(broker)
        cluster.answers[WriteTxnMarkersRequest] = lambda *_: WriteTxnMarkersResponse()
        assert await remote.write(OTHER, marker(1), [TopicPartition("t", 0)]) == {}

    with_broker(test)
