"""Transactions that hang: open in a partition, and no coordinator will end them. They keep the last
stable offset where it is, so that readers with `read_committed` see nothing more (KIP-664)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ottla.cli.offsets import Partition
from ottla.cli.transactions.read import (
    Json,
    Producer,
    located_partitions,
    producers_in,
    transactions_of,
)
from ottla.client.cluster import ClusterClient, Node
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)


class OpenTransaction(NamedTuple):
    topic: str
    partition: int
    producer: Producer

    @property
    def key(self) -> Partition:
        return self.topic, self.partition

    @property
    def identity(self) -> tuple[object, ...]:
        return self.key, self.producer.producer_id, self.producer.start_offset


class Search(NamedTuple):
    """What a search for hanging transactions came to."""

    hanging: list[Json]
    failures: dict[Partition, str]
    """Partitions that could not be looked at."""


async def hanging_transactions(
    client: ClusterClient,
    topic: str | None,
    partition: int | None,
    broker_id: int | None,
    *,
    open_longer_than_ms: int,
    now_ms: int,
) -> Search:
    """Transactions that are open in a partition and that no coordinator will end. Younger ones are
    not suspect: their producers may still be in the middle of them."""
    located, without_leader = await located_partitions(client, topic, partition, broker_id)
    found, failures = await producers_in(client, located)
    suspects = [
        one
        for one in open_transactions(found)
        if now_ms - (one.producer.last_timestamp_ms or 0) > open_longer_than_ms
    ]
    known: dict[int, Json] = {}
    if suspects:
        suspected_ids = (one.producer.producer_id for one in suspects)
        known = await transactions_of(client, suspected_ids, now_ms)
    hanging = [one for one in suspects if is_hanging(one, known)]
    if hanging:
        # One that ended between both questions looks as if it hung. Now it is not open any more.
        where = {one.key: located[one.key] for one in hanging}
        again, _ = await producers_in(client, where)
        still_open = {one.identity for one in open_transactions(again)}
        hanging = [one for one in hanging if one.identity in still_open]
    shown = [_shown(one, known.get(one.producer.producer_id), now_ms) for one in hanging]
    return Search(shown, {**without_leader, **failures})


def open_transactions(found: Mapping[Partition, Sequence[Producer]]) -> list[OpenTransaction]:
    return [
        OpenTransaction(topic, partition, producer)
        for (topic, partition), producers in sorted(found.items())
        for producer in producers
        if producer.start_offset is not None
    ]


def is_hanging(one: OpenTransaction, known: Mapping[int, Json]) -> bool:
    """A coordinator names all partitions of a transaction that have no marker yet. If this is not
    among them, none will be written."""
    transaction = known.get(one.producer.producer_id)
    here = {"topic": one.topic, "partition": one.partition}
    return transaction is None or here not in transaction["partitions"]


def _shown(one: OpenTransaction, transaction: Json | None, now_ms: int) -> Json:
    return {
        "topic": one.topic,
        "partition": one.partition,
        "transactional_id": None if transaction is None else transaction["transactional_id"],
        **one.producer._asdict(),
        "duration_ms": max(0, now_ms - (one.producer.last_timestamp_ms or 0)),
    }


async def abort_transaction(
    client: ClusterClient, one: OpenTransaction, coordinator_epoch: int, leader: Node
) -> None:
    """Has the leader write the marker that the coordinator did not send. Raises KafkaError."""
    topic = WritableTxnMarkerTopic(name=one.topic, partition_indexes=[one.partition])
    marker = WritableTxnMarker(
        producer_id=one.producer.producer_id,
        producer_epoch=one.producer.producer_epoch,
        transaction_result=False,
        topics=[topic],
        coordinator_epoch=coordinator_epoch,
    )
    request = WriteTxnMarkersRequest(markers=[marker])
    response = await client.ask(request, WriteTxnMarkersResponse, node=leader)
    code = ErrorCode(response.markers[0].topics[0].partitions[0].error_code)
    if code != ErrorCode.NONE:
        raise KafkaError(code, f"{one.topic}:{one.partition} takes no marker")
