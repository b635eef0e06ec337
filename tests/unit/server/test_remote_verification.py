from __future__ import annotations

import asyncio

import pytest

from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import ProducerIdAndEpoch, TopicPartition
from ottla.server.remote_verification import RemoteVerification
from ottla.server.transaction_verification import Question
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from tests.support.other_broker import OTHER, add_other_broker
from tests.support.simulated_broker import SimulatedBroker, with_broker
from tests.unit.server.test_remote_markers import peers_of

AT = TopicPartition("t", 0)
PRODUCER = ProducerIdAndEpoch(10, 3)


def answer(request: AddPartitionsToTxnRequest, code: ErrorCode) -> AddPartitionsToTxnResponse:
    """The same for all partitions."""
    return AddPartitionsToTxnResponse(
        results_by_transaction=[
            AddPartitionsToTxnResult(
                transactional_id=transaction.transactional_id,
                topic_results=[
                    AddPartitionsToTxnTopicResult(
                        name=topic.name,
                        results_by_partition=[
                            AddPartitionsToTxnPartitionResult(
                                partition_index=number, partition_error_code=code
                            )
                            for number in topic.partitions
                        ],
                    )
                    for topic in transaction.topics
                ],
            )
            for transaction in reversed(request.transactions)
        ]
    )


def test_questions_of_many_transactions_go_in_one_request() -> None:
    async def test(broker: SimulatedBroker) -> None:
        cluster = add_other_broker(broker)
        cluster.answers[AddPartitionsToTxnRequest] = lambda _, request: answer(
            request, ErrorCode.NONE
        )
        remote = RemoteVerification(peers_of(broker))
        partitions = [AT, TopicPartition("u", 4), TopicPartition("t", 3)]
        said = await asyncio.gather(
            remote.ask(OTHER, Question("a", PRODUCER, partitions, is_verified_only=True)),
            remote.ask(OTHER, Question("b", PRODUCER, [AT], is_verified_only=False)),
            remote.ask(OTHER, Question("a", PRODUCER, [AT], is_verified_only=False)),
        )
        assert list(said) == [
            dict.fromkeys(partitions, ErrorCode.NONE),
            {AT: ErrorCode.NONE},
            {AT: ErrorCode.NONE},
        ]
        (_, first, version), (_, second, _) = cluster.asked
        assert version == 5
        assert isinstance(first, AddPartitionsToTxnRequest)
        assert isinstance(second, AddPartitionsToTxnRequest)
        # Two of one transaction could not be told apart in the response.
        assert [(one.transactional_id, one.verify_only) for one in first.transactions] == [
            ("a", True),
            ("b", False),
        ]
        assert [one.transactional_id for one in second.transactions] == ["a"]
        sent = first.transactions[0]
        assert (sent.producer_id, sent.producer_epoch) == PRODUCER
        assert [(topic.name, topic.partitions) for topic in sent.topics] == [
            ("t", [0, 3]),
            ("u", [4]),
        ]

    with_broker(test)


def test_what_the_other_broker_does_not_vouch_for_is_refused() -> None:
    async def test(broker: SimulatedBroker) -> None:
        cluster = add_other_broker(broker)
        remote = RemoteVerification(peers_of(broker))
        asked = Question("a", PRODUCER, [AT], is_verified_only=True)
        cluster.answers[AddPartitionsToTxnRequest] = lambda *_: AddPartitionsToTxnResponse()
        assert await remote.ask(OTHER, asked) == {AT: ErrorCode.UNKNOWN_SERVER_ERROR}
        cluster.answers[AddPartitionsToTxnRequest] = lambda *_: AddPartitionsToTxnResponse(
            error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        )
        with pytest.raises(KafkaError) as raised:
            await remote.ask(OTHER, asked)
        assert raised.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED

    with_broker(test)
