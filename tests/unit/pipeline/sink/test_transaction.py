from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ottla.client.blocking_cluster import BlockingCluster
from ottla.client.blocking_groups import CommittedOffset
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import ProducerIdAndEpoch, TopicId, TopicPartition
from ottla.pipeline.sink.transaction import LedgerEntry, Transaction, ledger_topic_id
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from tests.support.socket_broker import HOST, SocketBroker

CLICKS = TopicPartition("clicks", 1)
PRODUCER = ProducerIdAndEpoch(9, 4)
OFFSETS = {CLICKS: CommittedOffset(7, "note", 2)}


@pytest.fixture
def broker() -> Iterator[SocketBroker]:
    with SocketBroker() as broker:
        found = Coordinator(key="mine", node_id=1, host=HOST, port=broker.port)
        broker.answers[FindCoordinatorRequest] = lambda _: FindCoordinatorResponse(
            coordinators=[found]
        )
        yield broker


@pytest.fixture
def cluster(broker: SocketBroker) -> Iterator[BlockingCluster]:
    with BlockingCluster(broker.bootstrap, retry_timeout_s=20.0) as cluster:
        yield cluster


def begun(cluster: BlockingCluster) -> Transaction:
    return Transaction.of(cluster, "mine", PRODUCER)


def in_turn(make: Callable[[int], Any], *codes: int) -> Callable[[Any], Any]:
    """None as a code is a connection that is cut."""
    left = list(codes)
    return lambda _: None if (code := left.pop(0)) is None else make(code)


def ended(code: int) -> EndTxnResponse:
    return EndTxnResponse(error_code=code, producer_id=9, producer_epoch=5)


def offsets_taken(code: int) -> TxnOffsetCommitResponse:
    one = TxnOffsetCommitResponsePartition(partition_index=1, error_code=code)
    return TxnOffsetCommitResponse(
        topics=[TxnOffsetCommitResponseTopic(name="clicks", partitions=[one])]
    )


def added(*codes: int) -> AddPartitionsToTxnResponse:
    results = [
        AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=code)
        for index, code in enumerate(codes)
    ]
    topic = AddPartitionsToTxnTopicResult(name="clicks", results_by_partition=results)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[topic])


def test_beginning_waits_for_what_was_left_open(
    broker: SocketBroker, cluster: BlockingCluster
) -> None:
    broker.answers[InitProducerIdRequest] = in_turn(
        lambda code: InitProducerIdResponse(error_code=code, producer_id=9, producer_epoch=4),
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NONE,
    )
    transaction = Transaction(cluster, "mine", timeout_ms=5000)
    assert transaction.init() == transaction.producer == PRODUCER
    request = broker.requests(InitProducerIdRequest)[0]
    assert (request.transactional_id, request.transaction_timeout_ms) == ("mine", 5000)
    assert {one.key_type for one in broker.requests(FindCoordinatorRequest)} == {1}


def test_version_2_needs_no_requests_to_add(broker: SocketBroker, cluster: BlockingCluster) -> None:
    broker.answers[TxnOffsetCommitRequest] = in_turn(offsets_taken, ErrorCode.NONE)
    broker.answers[EndTxnRequest] = in_turn(ended, ErrorCode.NONE)
    transaction = begun(cluster)
    transaction.add_partitions([CLICKS])
    transaction.commit_offsets("group", OFFSETS)
    transaction.commit()
    assert transaction.producer == ProducerIdAndEpoch(9, 5)
    versions = {type(request): version for request, version in broker.asked}
    assert AddPartitionsToTxnRequest not in versions
    assert AddOffsetsToTxnRequest not in versions
    assert versions[TxnOffsetCommitRequest] >= 5
    assert versions[EndTxnRequest] >= 5
    (end,) = broker.requests(EndTxnRequest)
    assert (end.producer_id, end.producer_epoch, end.committed) == (9, 4, True)
    (request,) = broker.requests(TxnOffsetCommitRequest)
    (one,) = request.topics[0].partitions
    assert (request.group_id, request.producer_id, request.producer_epoch) == ("group", 9, 4)
    assert (one.partition_index, one.committed_offset, one.committed_leader_epoch) == (1, 7, 2)
    assert one.committed_metadata == "note"


def test_version_1_adds_partitions_once_and_groups(
    broker: SocketBroker, cluster: BlockingCluster
) -> None:
    broker.transaction_version = 1
    broker.answers[AddPartitionsToTxnRequest] = lambda _: added(ErrorCode.NONE)
    broker.answers[AddOffsetsToTxnRequest] = lambda _: AddOffsetsToTxnResponse()
    broker.answers[TxnOffsetCommitRequest] = in_turn(offsets_taken, ErrorCode.NONE)
    broker.answers[EndTxnRequest] = in_turn(
        lambda code: EndTxnResponse(error_code=code), ErrorCode.NONE
    )
    transaction = begun(cluster)
    for partitions in ([CLICKS], [CLICKS], [CLICKS, TopicPartition("clicks", 0)]):
        transaction.add_partitions(partitions)
    transaction.commit_offsets("group", OFFSETS)
    transaction.abort()
    assert transaction.producer == PRODUCER
    asked = broker.requests(AddPartitionsToTxnRequest)
    assert [one.v3_and_below_topics[0].partitions for one in asked] == [[1], [0]]
    versions = {type(request): version for request, version in broker.asked}
    assert versions[AddPartitionsToTxnRequest] <= 3
    assert versions[TxnOffsetCommitRequest] <= 4
    assert versions[EndTxnRequest] <= 4
    assert broker.requests(AddOffsetsToTxnRequest)[0].group_id == "group"
    assert not broker.requests(EndTxnRequest)[0].committed


def test_a_lost_answer_is_asked_for_again(broker: SocketBroker, cluster: BlockingCluster) -> None:
    cut: Any = None
    broker.answers[EndTxnRequest] = in_turn(
        ended, cut, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NONE
    )
    transaction = begun(cluster)
    transaction.commit()
    first, *again = broker.requests(EndTxnRequest)
    assert again == [first, first]
    assert transaction.producer == ProducerIdAndEpoch(9, 5)


@pytest.mark.parametrize(
    ("code", "meaning"),
    [
        (ErrorCode.PRODUCER_FENCED, "fenced this one"),
        (ErrorCode.INVALID_PRODUCER_EPOCH, "fenced this one"),
        (ErrorCode.INVALID_TXN_STATE, "it timed out"),
        (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"),
    ],
)
def test_what_ends_it_is_said_in_words(
    broker: SocketBroker, cluster: BlockingCluster, code: ErrorCode, meaning: str
) -> None:
    broker.answers[EndTxnRequest] = in_turn(ended, code)
    broker.answers[TxnOffsetCommitRequest] = in_turn(offsets_taken, code)
    transaction = begun(cluster)
    with pytest.raises(KafkaError, match=f"committing transaction mine: .*{meaning}") as raised:
        transaction.commit()
    assert raised.value.code == code
    with pytest.raises(KafkaError, match="committing offsets of group group in transaction mine"):
        transaction.commit_offsets("group", OFFSETS)


def test_of_partitions_that_were_not_attempted_the_reason_is_another(
    broker: SocketBroker, cluster: BlockingCluster
) -> None:
    broker.transaction_version = 1
    broker.answers[AddPartitionsToTxnRequest] = lambda _: added(
        ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.TOPIC_AUTHORIZATION_FAILED
    )
    with pytest.raises(KafkaError) as raised:
        begun(cluster).add_partitions([TopicPartition("clicks", 0), CLICKS])
    assert raised.value.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_no_offsets_are_no_request(broker: SocketBroker, cluster: BlockingCluster) -> None:
    begun(cluster).commit_offsets("group", {})
    assert broker.asked == []


def test_the_ledger_knows_its_own() -> None:
    entry = LedgerEntry('a "query"', 12)
    assert LedgerEntry.parse(entry.text()) == entry
    for foreign in ("", "x", "[]", "7", "{}", '{"query":1,"batch":2}', '{"query":"q","batch":"2"}'):
        assert LedgerEntry.parse(foreign) is None


def test_an_entry_may_say_which_topic_its_offset_is_of() -> None:
    entry, topic_id = LedgerEntry("query", 12), TopicId(bytes(range(16)))
    assert LedgerEntry.parse(entry.text(topic_id)) == entry
    assert ledger_topic_id(entry.text(topic_id)) == topic_id
    for other in (entry.text(), "", "note", '{"topic":7}', '{"topic":"clicks"}'):
        assert ledger_topic_id(other) is None
