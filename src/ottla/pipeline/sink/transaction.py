"""One producer's transactions over many tasks, and the ledger that says which have been committed.

The driver initialises: that gives an epoch, fences whoever wrote with the one before, and aborts
what that left open. Tasks write with the id and the epoch, each to partitions of its own. Then the
driver commits offsets in the transaction and ends it.

There are two versions (KIP-890), and a cluster says which it has agreed on. In version 1 whoever
writes first adds the partition to the transaction by a request of its own, and a group likewise; in
version 2 brokers do that when the first records or offsets come, and each end raises the epoch.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import NamedTuple

from ottla.client.blocking_cluster import GROUP_COORDINATOR, BlockingCluster
from ottla.client.blocking_groups import CommittedOffset
from ottla.client.cluster import TRANSACTION_COORDINATOR, Node
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import (
    ProducerIdAndEpoch,
    TopicId,
    TopicPartition,
    topic_id_from_text,
    topic_id_text,
)
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)

TRANSACTION_VERSION = "transaction.version"
PRODUCE_V1_UP_TO = 11
"""The last versions that mean transactions of version 1."""
_TXN_OFFSET_COMMIT_V1_UP_TO = 4
_END_TXN_V1_UP_TO = 4
_ADD_PARTITIONS_OF_CLIENTS_UP_TO = 3
"""Newer ones are what brokers send each other."""


class LedgerEntry(NamedTuple):
    """Which batch of which query a transaction was. Stands in the metadata of every offset that was
    committed in it, so that both are there or neither. By the id of the query, not by its name: a
    query that begins anew under an old name has other batches with the same numbers.

    It is read after `Transaction.init`: until then a commit may be under way, of this driver or of
    one that is no more, and brokers answer an EndTxn before it can be seen everywhere."""

    query_id: str
    batch_id: int

    def text(self, topic_id: TopicId | None = None) -> str:
        """With the id of the topic that the offset is of, where that matters."""
        found: dict[str, str | int] = {"query": self.query_id, "batch": self.batch_id}
        if topic_id is not None:
            found["topic"] = topic_id_text(topic_id)
        return json.dumps(found, separators=(",", ":"))

    @classmethod
    def parse(cls, metadata: str) -> LedgerEntry | None:
        """None for what somebody else has written there."""
        try:
            found = json.loads(metadata)
            query_id, batch_id = found["query"], found["batch"]
        except (ValueError, KeyError, TypeError):
            return None
        if not isinstance(query_id, str) or type(batch_id) is not int:
            return None
        return cls(query_id, batch_id)


def ledger_topic_id(metadata: str) -> TopicId | None:
    """Which topic an entry of the ledger is about, if it says so."""
    try:
        return topic_id_from_text(json.loads(metadata)["topic"])
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


class Transaction:
    """Of one transactional id. Made by the driver, which ends it; tasks that write make one for the
    same producer (`of`) to add their partitions. A crash leaves it open until the next `init`, or
    until `timeout_ms`, after which the coordinator aborts it."""

    def __init__(
        self, cluster: BlockingCluster, transactional_id: str, *, timeout_ms: int = 60_000
    ) -> None:
        self._cluster = cluster
        self._timeout_ms = timeout_ms
        self._producer: ProducerIdAndEpoch | None = None
        self._version: int | None = None
        self._added: set[TopicPartition] = set()
        self.transactional_id = transactional_id

    @classmethod
    def of(
        cls, cluster: BlockingCluster, transactional_id: str, producer: ProducerIdAndEpoch
    ) -> Transaction:
        """One that another process has initialised."""
        transaction = cls(cluster, transactional_id)
        transaction._producer = producer
        return transaction

    @property
    def producer(self) -> ProducerIdAndEpoch:
        assert self._producer is not None, "a transaction is initialised before it is used"
        return self._producer

    @property
    def is_version_2(self) -> bool:
        if self._version is None:
            self._version = self._cluster.retrying(
                "asking for the version of transactions",
                lambda: self._cluster.finalized_feature(TRANSACTION_VERSION),
            )
        return self._version >= 2

    def init(self) -> ProducerIdAndEpoch:
        """Fences all who came before, and waits until what they left open is aborted."""
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id, transaction_timeout_ms=self._timeout_ms
        )

        def attempt() -> ProducerIdAndEpoch:
            response = self._cluster.ask(request, InitProducerIdResponse, node=self._coordinator())
            self._check(response.error_code, "beginning")
            return ProducerIdAndEpoch(response.producer_id, response.producer_epoch)

        self._producer = self._cluster.retrying(self._doing("beginning"), attempt)
        self._added.clear()
        return self._producer

    def add_partitions(self, partitions: Collection[TopicPartition]) -> None:
        """Before anything is written to them."""
        if self.is_version_2:
            return
        new = set(partitions) - self._added
        if not new:
            return
        topics: dict[str, list[int]] = {}
        for topic, partition in sorted(new):
            topics.setdefault(topic, []).append(partition)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer.producer_id,
            v3_and_below_producer_epoch=self.producer.producer_epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=name, partitions=numbers)
                for name, numbers in topics.items()
            ],
        )

        def attempt() -> None:
            response = self._cluster.ask(
                request,
                AddPartitionsToTxnResponse,
                node=self._coordinator(),
                version_max=_ADD_PARTITIONS_OF_CLIENTS_UP_TO,
            )
            codes = [
                one.partition_error_code
                for topic in response.results_by_topic_v3_and_below
                for one in topic.results_by_partition
            ]
            self._check_all(codes, "adding partitions to")

        self._cluster.retrying(self._doing("adding partitions to"), attempt)
        self._added |= new

    def commit_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, CommittedOffset]
    ) -> None:
        """They take effect when the transaction commits."""
        if not offsets:
            return
        if not self.is_version_2:
            self._add_group(group_id)
        request = self._offsets_request(group_id, offsets)
        version_max = None if self.is_version_2 else _TXN_OFFSET_COMMIT_V1_UP_TO

        def attempt() -> None:
            node = self._cluster.coordinator(GROUP_COORDINATOR, group_id)
            response = self._cluster.ask(
                request, TxnOffsetCommitResponse, node=node, version_max=version_max
            )
            codes = [one.error_code for topic in response.topics for one in topic.partitions]
            self._check_all(codes, f"committing offsets of group {group_id} in")

        self._cluster.retrying(self._doing("committing offsets in"), attempt)

    def commit(self) -> None:
        self._end(is_commit=True)

    def abort(self) -> None:
        self._end(is_commit=False)

    def _end(self, *, is_commit: bool) -> None:
        doing = "committing" if is_commit else "aborting"
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.producer_epoch,
            committed=is_commit,
        )
        version_max = None if self.is_version_2 else _END_TXN_V1_UP_TO

        def attempt() -> EndTxnResponse:
            # The same request again after a lost answer is answered as the first was (KIP-360,
            # and KIP-890 though the epoch has been raised).
            response = self._cluster.ask(
                request, EndTxnResponse, node=self._coordinator(), version_max=version_max
            )
            self._check(response.error_code, doing)
            return response

        response = self._cluster.retrying(self._doing(doing), attempt)
        self._added.clear()
        if response.producer_id >= 0:
            self._producer = ProducerIdAndEpoch(response.producer_id, response.producer_epoch)

    def _add_group(self, group_id: str) -> None:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.producer_epoch,
            group_id=group_id,
        )

        def attempt() -> None:
            response = self._cluster.ask(request, AddOffsetsToTxnResponse, node=self._coordinator())
            self._check(response.error_code, f"adding group {group_id} to")

        self._cluster.retrying(self._doing("adding a group to"), attempt)

    def _offsets_request(
        self, group_id: str, offsets: Mapping[TopicPartition, CommittedOffset]
    ) -> TxnOffsetCommitRequest:
        topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
        for (topic, partition), committed in offsets.items():
            topics.setdefault(topic, []).append(
                TxnOffsetCommitRequestPartition(
                    partition_index=partition,
                    committed_offset=committed.offset,
                    committed_leader_epoch=committed.leader_epoch,
                    committed_metadata=committed.metadata,
                )
            )
        return TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group_id,
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.producer_epoch,
            topics=[
                TxnOffsetCommitRequestTopic(name=name, partitions=partitions)
                for name, partitions in topics.items()
            ],
        )

    def _coordinator(self) -> Node:
        return self._cluster.coordinator(TRANSACTION_COORDINATOR, self.transactional_id)

    def _doing(self, what: str) -> str:
        return f"{what} transaction {self.transactional_id}"

    def _check(self, error_code: int, doing: str) -> None:
        if error_code:
            code = ErrorCode(error_code)
            raise KafkaError(code, f"{self._doing(doing)}: {MEANINGS.get(code, code.name)}")

    def _check_all(self, error_codes: list[int], doing: str) -> None:
        """Kafka refuses all where one is wrong: the others are then only not attempted."""
        failed = [code for code in error_codes if code]
        if failed:
            real = [code for code in failed if code != ErrorCode.OPERATION_NOT_ATTEMPTED]
            self._check((real or failed)[0], doing)


PLACE_ROWS = (
    "place the rows before they are written exactly once: "
    "ottla.pipeline.sink.placement.placed(frame, ...), or write the batch with "
    "ottla.pipeline.sink.sink.write_batch, which does"
)
_GIVEN_UP = "or a task of the same batch failed and gave it up, whose own error then says why"
_FENCED = (
    "another producer has begun with the same transactional id, and fenced this one; or it took "
    f"longer than its time-out (transaction.timeout.ms), and was aborted; {_GIVEN_UP}"
)
MEANINGS = {
    ErrorCode.PRODUCER_FENCED: _FENCED,
    ErrorCode.INVALID_PRODUCER_EPOCH: _FENCED,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: (
        f"another task has written to the partition in this transaction; {PLACE_ROWS}"
    ),
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: (
        "the coordinator does not know the producer: its transactional id has expired"
    ),
    ErrorCode.INVALID_TXN_STATE: (
        f"the transaction is not open: it timed out, or has ended already; {_GIVEN_UP}"
    ),
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: (
        "the broker allows no such time-out: see its transaction.max.timeout.ms"
    ),
}
"""What a refusal means to one who writes in a transaction, and what to do."""
