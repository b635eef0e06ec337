from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.client.blocking_cluster import BlockingCluster
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import ProducerIdAndEpoch, TopicPartition
from ottla.pipeline.sink.sole_writer import NotSoleWriter, SoleWriter
from ottla.pipeline.sink.transaction import Transaction
from ottla.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from tests.support.socket_broker import SocketBroker

CLICKS = TopicPartition("clicks", 1)
PRODUCER = ProducerIdAndEpoch(9, 4)


@pytest.fixture
def sole(broker: SocketBroker) -> Iterator[SoleWriter]:
    with BlockingCluster(broker.bootstrap) as cluster:
        yield SoleWriter(cluster, Transaction.of(cluster, "mine", PRODUCER))


def knows(broker: SocketBroker, *producers: ProducerState, error_code: int = 0) -> None:
    partition = PartitionResponse(
        partition_index=1, error_code=error_code, active_producers=list(producers)
    )
    topic = TopicResponse(name="clicks", partitions=[partition])
    broker.answers[DescribeProducersRequest] = lambda _: DescribeProducersResponse(topics=[topic])


def test_others_and_earlier_transactions_may_have_written(
    broker: SocketBroker, sole: SoleWriter
) -> None:
    knows(
        broker,
        ProducerState(producer_id=8, producer_epoch=4, last_sequence=5),
        ProducerState(producer_id=9, producer_epoch=3, last_sequence=5),
        ProducerState(producer_id=9, producer_epoch=4, last_sequence=-1),
    )
    for _ in range(2):
        sole.check(CLICKS)
    (request,) = broker.requests(DescribeProducersRequest)
    assert request.topics[0].partition_indexes == [1]


def test_nothing_else_in_the_same_transaction(broker: SocketBroker, sole: SoleWriter) -> None:
    knows(broker, ProducerState(producer_id=9, producer_epoch=4, last_sequence=0))
    with pytest.raises(NotSoleWriter, match=r"clicks-1 was written to .*placed\(frame"):
        sole.check(CLICKS)


def test_a_broker_that_refuses(broker: SocketBroker, sole: SoleWriter) -> None:
    knows(broker, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(KafkaError, match="asking who writes to clicks-1"):
        sole.check(CLICKS)
