"""In a transaction, each partition is one task's: of two that write to it with one producer, both
begin with sequence 0, and the broker takes what the second writes for what it has already.

The driver compares what tasks have written, which finds two tasks. It does not see a task that
Spark ran again after it had written something and failed: its first attempt never reported. The
leader knows, and is asked before the first write. Two that ask before either writes find out by the
broker's refusal, or by the driver."""

from __future__ import annotations

from ottla.client.blocking_cluster import BlockingCluster
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import TopicPartition
from ottla.pipeline.sink.transaction import PLACE_ROWS, Transaction
from ottla.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    ProducerState,
    TopicRequest,
)


class NotSoleWriter(Exception):
    """Something else writes to the partition in the same transaction."""


class SoleWriter:
    """In one task, for as long as it runs."""

    def __init__(self, cluster: BlockingCluster, transaction: Transaction) -> None:
        self._cluster = cluster
        self._transaction = transaction
        self._checked: set[TopicPartition] = set()

    def check(self, where: TopicPartition) -> None:
        """Raises NotSoleWriter where the transaction has records in the partition that are not from
        here."""
        if where in self._checked:
            return
        self._checked.add(where)
        producers = self._cluster.retrying(
            f"asking who writes to {where}", lambda: self._producers(where)
        )
        for one in producers:
            is_ours = (one.producer_id, one.producer_epoch) == self._transaction.producer
            if is_ours and one.last_sequence >= 0:
                raise NotSoleWriter(
                    f"{where} was written to in this transaction by another task, or by an attempt "
                    f"of this one that failed; {PLACE_ROWS}"
                )

    def _producers(self, where: TopicPartition) -> list[ProducerState]:
        _, node, _ = self._cluster.leader(where)
        wanted = TopicRequest(name=where.topic, partition_indexes=[where.partition])
        response = self._cluster.ask(
            DescribeProducersRequest(topics=[wanted]), DescribeProducersResponse, node=node
        )
        answer = response.topics[0].partitions[0]
        if answer.error_code:
            raise KafkaError(ErrorCode(answer.error_code), f"asking who writes to {where}")
        return answer.active_producers
