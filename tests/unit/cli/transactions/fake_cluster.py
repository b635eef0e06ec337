"""A cluster of two brokers with transactions, as `ottla transactions` sees it."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest

from ottla.cli.client import Cluster
from ottla.cli.main import main
from ottla.client.cluster import ClusterClient
from ottla.kernel.errors import ErrorCode
from ottla.testing.loop import VirtualLoop, run_virtual
from ottla.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from ottla.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)
from ottla.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from ottla.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from ottla.wire.messages.list_transactions import TransactionState as Listing
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tests.support.scripted_cluster import FIRST_PORT, ScriptedCluster

T = TypeVar("T")
Partition = tuple[str, int]

NOW_MS = 1_700_000_000_000
COORDINATOR_ID = 2


def json_of(capsys: pytest.CaptureFixture[str], *args: str) -> Any:
    """What a command prints with --json."""
    assert main([*args, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def producer(id: int, *, start_offset: int = -1, age_minutes: float = 0) -> ProducerState:
    return ProducerState(
        producer_id=id,
        producer_epoch=3,
        last_sequence=8,
        last_timestamp=NOW_MS - int(age_minutes * 60_000),
        coordinator_epoch=-1,
        current_txn_start_offset=start_offset,
    )


def transaction(
    id: str, producer_id: int, state: str, *partitions: Partition, started_ms: int = -1
) -> TransactionState:
    return TransactionState(
        transactional_id=id,
        transaction_state=state,
        transaction_timeout_ms=60_000,
        transaction_start_time_ms=started_ms,
        producer_id=producer_id,
        producer_epoch=3,
        topics=[TopicData(topic=topic, partitions=[number]) for topic, number in partitions],
    )


class FakeCluster:
    """Its fields are what the brokers know; a test sets them. Broker 2 coordinates."""

    def __init__(self) -> None:
        self.leaders: dict[Partition, int] = {("clicks", 0): 1, ("clicks", 1): 2, ("views", 0): 1}
        self.producers: dict[Partition, list[ProducerState]] = {}
        self.transactions: list[TransactionState] = []
        self.producers_error: ErrorCode = ErrorCode.NONE
        self.marker_error: ErrorCode = ErrorCode.NONE
        self.list_errors: list[ErrorCode] = []
        """One for each listing to come."""
        self.markers: list[WritableTxnMarker] = []
        self.listings: list[ListTransactionsRequest] = []
        self.producer_requests: list[tuple[int, list[Partition]]] = []

    def run(self, work: Callable[[ClusterClient], Coroutine[Any, Any, T]]) -> T:
        async def main(loop: VirtualLoop) -> T:
            cluster = ScriptedCluster(loop)
            cluster.answers |= {
                MetadataRequest: lambda _, request: self._metadata(cluster, request),
                FindCoordinatorRequest: self._coordinator,
                ListTransactionsRequest: self._list,
                DescribeTransactionsRequest: self._describe,
                DescribeProducersRequest: self._producers,
                WriteTxnMarkersRequest: self._write_markers,
            }
            client = cluster.client()
            try:
                return await work(client)
            finally:
                client.close()

        return run_virtual(main)

    def run_for(
        self, cluster: Cluster, work: Callable[[ClusterClient], Coroutine[Any, Any, T]]
    ) -> T:
        """In the place of `ottla.cli.transactions.read.run`."""
        return self.run(work)

    def _metadata(self, cluster: ScriptedCluster, request: MetadataRequest) -> MetadataResponse:
        names = {name for name, _ in self.leaders}
        if request.topics is not None:
            names = {topic.name or "" for topic in request.topics}
        topics = []
        for name in sorted(names):
            parts = [
                MetadataResponsePartition(
                    partition_index=number, leader_id=leader, replica_nodes=[leader]
                )
                for (topic, number), leader in self.leaders.items()
                if topic == name
            ]
            code = ErrorCode.NONE if parts else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            topics.append(MetadataResponseTopic(name=name, partitions=parts, error_code=code))
        return MetadataResponse(brokers=cluster.nodes(), topics=topics)

    def _coordinator(
        self, node_id: int, request: FindCoordinatorRequest
    ) -> FindCoordinatorResponse:
        found = Coordinator(
            key=request.coordinator_keys[0],
            node_id=COORDINATOR_ID,
            host="localhost",
            port=FIRST_PORT + COORDINATOR_ID,
            error_message=None,
        )
        return FindCoordinatorResponse(coordinators=[found])

    def _list(self, node_id: int, request: ListTransactionsRequest) -> ListTransactionsResponse:
        self.listings.append(request)
        if self.list_errors:
            return ListTransactionsResponse(error_code=self.list_errors.pop(0))
        if node_id != COORDINATOR_ID:
            return ListTransactionsResponse()
        return ListTransactionsResponse(
            transaction_states=[
                Listing(
                    transactional_id=one.transactional_id,
                    producer_id=one.producer_id,
                    transaction_state=one.transaction_state,
                )
                for one in self.transactions
                if not request.producer_id_filters or one.producer_id in request.producer_id_filters
            ]
        )

    def _describe(
        self, node_id: int, request: DescribeTransactionsRequest
    ) -> DescribeTransactionsResponse:
        assert node_id == COORDINATOR_ID
        (wanted,) = request.transactional_ids
        found = [one for one in self.transactions if one.transactional_id == wanted]
        unknown = TransactionState(
            transactional_id=wanted, error_code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        )
        return DescribeTransactionsResponse(transaction_states=found or [unknown])

    def _producers(
        self, node_id: int, request: DescribeProducersRequest
    ) -> DescribeProducersResponse:
        keys = [
            (topic.name, number) for topic in request.topics for number in topic.partition_indexes
        ]
        self.producer_requests.append((node_id, keys))
        return DescribeProducersResponse(
            topics=[
                TopicResponse(
                    name=name,
                    partitions=[
                        PartitionResponse(
                            partition_index=number,
                            error_code=self.producers_error,
                            active_producers=self.producers.get((name, number), []),
                        )
                    ],
                )
                for name, number in keys
            ]
        )

    def _write_markers(
        self, node_id: int, request: WriteTxnMarkersRequest
    ) -> WriteTxnMarkersResponse:
        (marker,) = request.markers
        (topic,) = marker.topics
        assert node_id == self.leaders[topic.name, topic.partition_indexes[0]]
        self.markers.append(marker)
        part = WritableTxnMarkerPartitionResult(
            partition_index=topic.partition_indexes[0], error_code=self.marker_error
        )
        result = WritableTxnMarkerTopicResult(name=topic.name, partitions=[part])
        return WriteTxnMarkersResponse(
            markers=[WritableTxnMarkerResult(producer_id=marker.producer_id, topics=[result])]
        )
