from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from ottla.client.blocking import GaveUp
from ottla.client.blocking_cluster import BlockingCluster
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import NO_TOPIC_ID, ProducerIdAndEpoch, TopicPartition
from ottla.pipeline.rows.appender import Appended, Appender
from ottla.pipeline.sink.transaction import Transaction
from ottla.records.batch import parse_header
from ottla.records.record import iter_records
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
)
from ottla.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from tests.support.socket_broker import HOST, TOPIC_ID, SocketBroker

CLICKS = TopicPartition("clicks", 0)
BATCH_BYTES = 200


class Partitions:
    """Appends as a broker does: a batch that it has is answered as before, one that is not next is
    refused."""

    def __init__(self, broker: SocketBroker) -> None:
        self.values: dict[int, list[bytes]] = {0: [], 1: []}
        self.problems: list[Any] = []
        """To do instead of answering, once each: an error code; `lost` writes and closes, `cut`
        closes without."""
        self.bytes_max = 1 << 20
        self._bases: dict[tuple[int, int], int] = {}
        broker.answers[ProduceRequest] = self.produce
        broker.answers[InitProducerIdRequest] = lambda _: InitProducerIdResponse(
            producer_id=5, producer_epoch=0
        )

    def produce(self, request: ProduceRequest) -> ProduceResponse | None:
        problem = self.problems.pop(0) if self.problems else ErrorCode.NONE
        if problem == "cut":
            return None
        responses = []
        for topic in request.topic_data:
            answers = [
                self._append(one.index, bytes(one.records or b""), problem)
                for one in topic.partition_data
            ]
            responses.append(
                TopicProduceResponse(
                    name=topic.name, topic_id=topic.topic_id, partition_responses=answers
                )
            )
        return None if problem == "lost" else ProduceResponse(responses=responses)

    def _append(self, index: int, batch: bytes, problem: Any) -> PartitionProduceResponse:
        if problem not in (ErrorCode.NONE, "lost"):
            errors = [BatchIndexAndErrorMessage(batch_index=0, batch_index_error_message="bad")]
            return PartitionProduceResponse(
                index=index, error_code=problem, error_message="no", record_errors=errors
            )
        if len(batch) > self.bytes_max:
            return PartitionProduceResponse(index=index, error_code=ErrorCode.MESSAGE_TOO_LARGE)
        sequence = parse_header(batch).base_sequence
        known = self._bases.get((index, sequence))
        if known is not None:
            return PartitionProduceResponse(index=index, base_offset=known)
        base = len(self.values[index])
        if sequence != base:
            code = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            return PartitionProduceResponse(index=index, error_code=code)
        self._bases[index, sequence] = base
        self.values[index] += [record.value or b"" for record in iter_records(batch)]
        return PartitionProduceResponse(index=index, base_offset=base)


@pytest.fixture
def partitions(broker: SocketBroker) -> Partitions:
    return Partitions(broker)


@pytest.fixture
def cluster(broker: SocketBroker) -> Iterator[BlockingCluster]:
    with BlockingCluster(broker.bootstrap, retry_timeout_s=20.0) as cluster:
        yield cluster


def numbers(start: int, stop: int) -> tuple[pa.Array, list[bytes]]:
    made = [b"value %d" % number for number in range(start, stop)]
    return pa.array(made), made


def test_what_is_appended_is_there_once_and_in_order(
    broker: SocketBroker, partitions: Partitions, cluster: BlockingCluster
) -> None:
    appender = Appender(cluster, batch_bytes=BATCH_BYTES)
    for partition, start in ((0, 0), (1, 0), (0, 100)):
        appender.append("clicks", partition, None, numbers(start, start + 100)[0])
    assert appender.flush() == {
        CLICKS: Appended(0, 199, 200),
        TopicPartition("clicks", 1): Appended(0, 99, 100),
    }
    assert partitions.values == {0: numbers(0, 200)[1], 1: numbers(0, 100)[1]}
    request = broker.requests(ProduceRequest)[0]
    assert (request.acks, request.transactional_id) == (-1, None)
    assert len(broker.requests(InitProducerIdRequest)) == 1
    assert appender.flush()[CLICKS].record_count == 200


@pytest.mark.parametrize(
    "problems",
    [
        ["lost"],
        ["cut"],
        [ErrorCode.NOT_LEADER_OR_FOLLOWER, "lost", "cut", ErrorCode.NOT_ENOUGH_REPLICAS],
        [ErrorCode.NONE] * 5 + ["lost", ErrorCode.NONE, "lost", ErrorCode.NONE, "cut"],
    ],
    ids=["answer lost", "request lost", "one after another", "in the middle"],
)
def test_failures_neither_lose_nor_double_a_record(
    partitions: Partitions, cluster: BlockingCluster, problems: list[Any]
) -> None:
    partitions.problems = problems
    appender = Appender(cluster, batch_bytes=BATCH_BYTES)
    for partition in (0, 1):
        appender.append("clicks", partition, None, numbers(0, 100)[0])
    written = appender.flush()
    assert partitions.values == dict.fromkeys((0, 1), numbers(0, 100)[1])
    assert written[CLICKS] == Appended(0, 99, 100)


def test_trying_comes_to_an_end(broker: SocketBroker, partitions: Partitions) -> None:
    partitions.problems = [ErrorCode.NOT_ENOUGH_REPLICAS] * 10_000
    with BlockingCluster(broker.bootstrap, retry_timeout_s=0.3) as cluster:
        appender = Appender(cluster)
        appender.append("clicks", 0, None, numbers(0, 10)[0])
        with pytest.raises(GaveUp, match=r"writing to clicks-0 .* NOT_ENOUGH_REPLICAS"):
            appender.flush()


def test_a_refusal_is_raised_with_the_brokers_words(
    partitions: Partitions, cluster: BlockingCluster
) -> None:
    partitions.problems = [ErrorCode.INVALID_RECORD]
    appender = Appender(cluster)
    appender.append("clicks", 0, None, numbers(0, 10)[0])
    with pytest.raises(
        KafkaError,
        match=r"clicks-0 refuses a batch of 10 records \(INVALID_RECORD\) no; record 0: bad",
    ) as raised:
        appender.flush()
    assert raised.value.code == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize(
    ("code", "meaning"),
    [
        (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, r"another task has written .*placement\.placed\("),
        (ErrorCode.INVALID_PRODUCER_EPOCH, ".*fenced this one.* a task of the same batch failed"),
        (ErrorCode.INVALID_TXN_STATE, ".*is not open.* a task of the same batch failed"),
        (ErrorCode.INVALID_RECORD, "no; record 0: bad"),
    ],
)
def test_what_a_refusal_means_in_a_transaction(
    partitions: Partitions, cluster: BlockingCluster, code: ErrorCode, meaning: str
) -> None:
    partitions.problems = [code]
    transaction = Transaction.of(cluster, "mine", ProducerIdAndEpoch(9, 4))
    appender = Appender(cluster, transaction=transaction)
    appender.append("clicks", 0, None, numbers(0, 10)[0])
    with pytest.raises(
        KafkaError, match=rf"clicks-0 refuses .* \({code.name}\) {meaning}"
    ) as raised:
        appender.flush()
    assert raised.value.code == code


def test_a_batch_that_is_too_large_is_halved_until_it_is_not(
    partitions: Partitions, cluster: BlockingCluster
) -> None:
    partitions.bytes_max = 150
    appender = Appender(cluster)
    appender.append("clicks", 0, None, numbers(0, 1000)[0])
    appender.append("clicks", 0, None, numbers(1000, 1500)[0])
    assert appender.flush()[CLICKS] == Appended(0, 1499, 1500)
    assert partitions.values[0] == numbers(0, 1500)[1]
    appender.append("clicks", 0, None, pa.array([bytes(500)]))
    with pytest.raises(KafkaError, match=r"one record of \d+ bytes is more than max\.message"):
        appender.flush()


def test_a_duplicate_from_long_ago_counts_without_its_offset(
    broker: SocketBroker, partitions: Partitions, cluster: BlockingCluster
) -> None:
    answer = PartitionProduceResponse(
        index=0, error_code=ErrorCode.DUPLICATE_SEQUENCE_NUMBER, base_offset=-1
    )
    topic = TopicProduceResponse(name="clicks", topic_id=TOPIC_ID, partition_responses=[answer])
    broker.answers[ProduceRequest] = lambda _: ProduceResponse(responses=[topic])
    appender = Appender(cluster)
    appender.append("clicks", 0, None, numbers(0, 3)[0])
    assert appender.flush() == {CLICKS: Appended(-1, -1, 3)}


def test_a_partition_without_an_answer_is_an_error(
    broker: SocketBroker, partitions: Partitions, cluster: BlockingCluster
) -> None:
    broker.answers[ProduceRequest] = lambda _: ProduceResponse()
    appender = Appender(cluster)
    appender.append("clicks", 0, None, numbers(0, 3)[0])
    with pytest.raises(KafkaError, match="did not answer for clicks-0"):
        appender.flush()


@pytest.mark.parametrize("version", [1, 2])
def test_in_a_transaction(
    broker: SocketBroker, partitions: Partitions, cluster: BlockingCluster, version: int
) -> None:
    broker.transaction_version = version
    found = Coordinator(key="mine", node_id=1, host=HOST, port=broker.port)
    broker.answers[FindCoordinatorRequest] = lambda _: FindCoordinatorResponse(coordinators=[found])
    broker.answers[AddPartitionsToTxnRequest] = lambda _: AddPartitionsToTxnResponse()
    transaction = Transaction.of(cluster, "mine", ProducerIdAndEpoch(9, 4))
    appender = Appender(cluster, transaction=transaction)
    for start in (0, 10):
        appender.append("clicks", 0, None, numbers(start, start + 10)[0])
    appender.flush()
    assert partitions.values[0] == numbers(0, 20)[1]
    request = broker.requests(ProduceRequest)[0]
    header = parse_header(request.topic_data[0].partition_data[0].records)
    assert (header.producer_id, header.producer_epoch, header.is_transactional) == (9, 4, True)
    assert request.transactional_id == "mine"
    versions = {type(request): number for request, number in broker.asked}
    assert (versions[ProduceRequest] >= 12) == (version == 2)
    assert len(broker.requests(AddPartitionsToTxnRequest)) == (version == 1)
    assert broker.requests(InitProducerIdRequest) == []


def test_a_broker_without_topic_ids_is_written_to_by_name(
    broker: SocketBroker, partitions: Partitions, cluster: BlockingCluster
) -> None:
    known = broker.metadata()
    known.topics[0].topic_id = NO_TOPIC_ID
    broker.answers[MetadataRequest] = lambda _: known
    appender = Appender(cluster)
    appender.append("clicks", 0, None, numbers(0, 3)[0])
    appender.flush()
    ((version, name),) = [
        (version, request.topic_data[0].name)
        for request, version in broker.asked
        if isinstance(request, ProduceRequest)
    ]
    assert (version, name) == (12, "clicks")


def test_nothing_is_written_of_nothing(broker: SocketBroker, cluster: BlockingCluster) -> None:
    appender = Appender(cluster)
    appender.append("clicks", 0, None, pa.array([], pa.binary()))
    assert appender.flush() == {}
    assert broker.asked == []
