from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from ottla.client.blocking_cluster import BlockingCluster
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import ProducerIdAndEpoch, TopicPartition
from ottla.pipeline.rows.appender import Appended
from ottla.pipeline.sink.batch_transaction import BatchFailed, BatchTransaction
from ottla.pipeline.sink.ledger import LedgerError, marked
from ottla.pipeline.sink.row_writer import Written
from ottla.pipeline.sink.transaction import LedgerEntry
from ottla.pipeline.sink.write_options import WriteOptions
from ottla.pipeline.source.given_options import OptionError
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from tests.support.socket_broker import SocketBroker
from tests.support.socket_transactions import PRODUCER_ID, Transactions

PRODUCER = ProducerIdAndEpoch(PRODUCER_ID, 0)
ZERO, ONE = TopicPartition("clicks", 0), TopicPartition("clicks", 1)
BATCH = LedgerEntry("query", 3)
ENDS = {ZERO: 7}
WRITTEN = Written(0, 5, {ZERO: Appended(10, 14, 5)}, PRODUCER)
OTHER = Written(1, 1, {ONE: Appended(3, 3, 1)}, PRODUCER)


@pytest.fixture
def options(broker: SocketBroker) -> WriteOptions:
    return WriteOptions.parse(
        {
            "kafka.bootstrap.servers": f"127.0.0.1:{broker.port}",
            "kafka.transactional.id": "mine",
        }
    )


@pytest.fixture
def cluster(broker: SocketBroker) -> Iterator[BlockingCluster]:
    with BlockingCluster(broker.bootstrap, retry_timeout_s=5.0) as cluster:
        yield cluster


@pytest.fixture
def transaction(
    brokers_side: Transactions, cluster: BlockingCluster, options: WriteOptions
) -> BatchTransaction:
    return BatchTransaction.begin(cluster, options)


def test_offsets_and_the_ledger_come_with_the_rows(
    brokers_side: Transactions, cluster: BlockingCluster, transaction: BatchTransaction
) -> None:
    assert not transaction.is_written(cluster, BATCH, ENDS)
    transaction.commit([WRITTEN, OTHER], BATCH, ENDS)
    assert brokers_side.ends == ["commit"]
    assert brokers_side.committed == marked(ENDS, BATCH)
    assert transaction.is_written(cluster, BATCH, ENDS)


def test_another_process_goes_on_with_it(
    brokers_side: Transactions,
    cluster: BlockingCluster,
    options: WriteOptions,
    transaction: BatchTransaction,
) -> None:
    BatchTransaction.of(cluster, options, transaction.producer).commit([WRITTEN])
    assert (brokers_side.ends, brokers_side.committed) == (["commit"], {})


def test_it_must_start_where_the_output_ends(
    cluster: BlockingCluster, brokers_side: Transactions, transaction: BatchTransaction
) -> None:
    brokers_side.committed = marked({ZERO: 5, ONE: 6}, LedgerEntry("other", 8))
    assert not transaction.is_written(cluster, BATCH, ENDS, {ZERO: 5, ONE: 6})
    with pytest.raises(LedgerError, match="another copy has gone on"):
        transaction.is_written(cluster, BATCH, ENDS, {ZERO: 5, ONE: 5})


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ([WRITTEN, None], "did not say"),
        ([WRITTEN, replace(WRITTEN, task=7)], r"tasks 0 and 7 both wrote to clicks-0 .*placed\("),
        ([replace(WRITTEN, row_count=6)], "task 0 had 6 rows, and wrote 5"),
        (
            [replace(WRITTEN, partitions={ZERO: Appended(10, 13, 5)})],
            "5 records to clicks-0, which has offsets for 4",
        ),
        ([replace(WRITTEN, producer=ProducerIdAndEpoch(9, 1))], "wrote as"),
    ],
)
def test_what_does_not_add_up_is_aborted(
    brokers_side: Transactions,
    transaction: BatchTransaction,
    written: list[Written | None],
    words: str,
) -> None:
    with pytest.raises(BatchFailed, match=words):
        transaction.commit(written, BATCH, ENDS)
    assert (brokers_side.ends, brokers_side.committed) == (["abort"], {})


def test_rows_from_no_topic_have_no_ledger(
    brokers_side: Transactions, transaction: BatchTransaction
) -> None:
    with pytest.raises(BatchFailed, match="nothing to tell a replayed batch by"):
        transaction.commit([WRITTEN], BATCH, {})
    assert brokers_side.ends == ["abort"]


def refuse_topics_but(name: str, broker: SocketBroker) -> None:
    """As brokers do with offsets of topics that they do not have: the others they take."""
    taken = broker.answers[TxnOffsetCommitRequest]

    def commit_offsets(request: TxnOffsetCommitRequest) -> TxnOffsetCommitResponse:
        gone = [topic for topic in request.topics if topic.name != name]
        request.topics = [topic for topic in request.topics if topic.name == name]
        answered = taken(request)
        assert isinstance(answered, TxnOffsetCommitResponse)
        for topic in gone:
            refused = [
                TxnOffsetCommitResponsePartition(
                    partition_index=one.partition_index,
                    error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                )
                for one in topic.partitions
            ]
            answered.topics.append(
                TxnOffsetCommitResponseTopic(name=topic.name, partitions=refused)
            )
        return answered

    broker.answers[TxnOffsetCommitRequest] = commit_offsets


def test_an_input_that_was_deleted_while_it_was_read_is_left_out_of_the_ledger(
    broker: SocketBroker,
    brokers_side: Transactions,
    transaction: BatchTransaction,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else the batch could never be committed, however often it is run again."""
    monkeypatch.setattr("ottla.client.blocking_cluster._ABSENT_S_MAX", 0.1)
    refuse_topics_but("clicks", broker)
    transaction.commit([WRITTEN], BATCH, {**ENDS, TopicPartition("gone", 0): 5})
    assert (brokers_side.ends, brokers_side.committed) == (["commit"], marked(ENDS, BATCH))
    with pytest.raises(BatchFailed, match="none of gone is at "):
        transaction.commit([WRITTEN], BATCH, {TopicPartition("gone", 0): 5})
    assert brokers_side.ends == ["commit", "abort"]


@pytest.mark.parametrize("batch", [BATCH, None])
def test_what_nothing_was_written_in_is_not_ended(
    brokers_side: Transactions, transaction: BatchTransaction, batch: LedgerEntry | None
) -> None:
    """It has never begun: brokers refuse to end it."""
    transaction.commit([replace(WRITTEN, row_count=0, partitions={})], batch, {})
    assert brokers_side.ends == []
    transaction.commit([replace(WRITTEN, row_count=0, partitions={})], BATCH, ENDS)
    assert brokers_side.ends == ["commit"]


def test_when_aborting_fails_too_the_first_reason_is_told(
    broker: SocketBroker, transaction: BatchTransaction
) -> None:
    broker.answers[EndTxnRequest] = lambda _: EndTxnResponse(error_code=ErrorCode.PRODUCER_FENCED)
    with pytest.raises(BatchFailed, match="did not say") as raised:
        transaction.commit([None], BATCH, ENDS)
    assert "fenced this one" in raised.value.__notes__[0]
    with pytest.raises(KafkaError, match="fenced this one"):
        transaction.commit([WRITTEN])


def test_exactly_once_needs_a_transactional_id(
    cluster: BlockingCluster, options: WriteOptions
) -> None:
    with pytest.raises(OptionError, match=r"kafka.transactional.id: is missing"):
        BatchTransaction.begin(cluster, replace(options, transactional_id=None))
