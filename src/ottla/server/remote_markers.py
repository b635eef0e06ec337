"""Markers for partitions that other brokers lead. Transactions end by the hundred at a time: one
WriteTxnMarkers to a broker carries those of all that have markers for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import BrokerId, TopicPartition
from ottla.membership.peer_batches import PeerBatches
from ottla.membership.peers import Peers
from ottla.replication.leader import Marker
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

PURPOSE = "markers"

Codes = dict[TopicPartition, ErrorCode]


class _Asked(NamedTuple):
    marker: Marker
    partitions: Sequence[TopicPartition]


class RemoteMarkers:
    """Owned by the marker writer, which tries again what fails."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers
        # A response names markers by their producer.
        self._batches = PeerBatches[_Asked, Codes](
            self._send, key_of=lambda asked: asked.marker.producer_id
        )

    async def write(
        self, broker_id: BrokerId, marker: Marker, partitions: Sequence[TopicPartition]
    ) -> Codes:
        """What the broker says of each partition. Raises KafkaError where it cannot be asked; it
        may have written the marker all the same."""
        return await self._batches.ask(broker_id, _Asked(marker, partitions))

    async def _send(self, broker_id: BrokerId, batch: Sequence[_Asked]) -> list[Codes]:
        request = WriteTxnMarkersRequest(markers=[_as_sent(asked) for asked in batch])
        response = await self._peers.ask(
            broker_id, request, WriteTxnMarkersResponse, purpose=PURPOSE
        )
        codes: dict[int, Codes] = {
            result.producer_id: {
                TopicPartition(topic.name, one.partition_index): ErrorCode(one.error_code)
                for topic in result.topics
                for one in topic.partitions
            }
            for result in response.markers
        }
        return [codes.get(asked.marker.producer_id, {}) for asked in batch]


def _as_sent(asked: _Asked) -> WritableTxnMarker:
    topics: dict[str, list[int]] = {}
    for topic, number in asked.partitions:
        topics.setdefault(topic, []).append(number)
    marker = asked.marker
    return WritableTxnMarker(
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        transaction_result=marker.is_commit,
        topics=[
            WritableTxnMarkerTopic(name=name, partition_indexes=numbers)
            for name, numbers in topics.items()
        ],
        coordinator_epoch=marker.coordinator_epoch,
        transaction_version=marker.transaction_version,
    )
