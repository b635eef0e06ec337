"""Whom a leader asks; `test_remote_verification.py` has how another broker is asked."""

from __future__ import annotations

import pytest

from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import ProducerIdAndEpoch, TopicPartition
from ottla.kernel.internal_topics import TRANSACTION_STATE
from ottla.server.transaction_verification import Question, TransactionVerification
from ottla.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from tests.support.other_broker import OTHER, add_other_broker, image_of, lead_by
from tests.support.simulated_broker import SimulatedBroker, with_broker
from tests.support.simulated_transaction import Transactional
from tests.unit.server.test_remote_markers import peers_of
from tests.unit.server.test_remote_verification import answer

AT = TopicPartition("t", 0)


def verification_of(broker: SimulatedBroker) -> TransactionVerification:
    running = broker.machine.broker
    assert running.transactions is not None
    return TransactionVerification(
        running.broker_id, image_of(broker), running.transactions, peers_of(broker)
    )


def question(producer: Transactional, *, is_verified_only: bool) -> Question:
    return Question(
        producer.transactional_id,
        producer.producer,
        [AT],
        is_verified_only=is_verified_only,
    )


def test_the_own_coordinator_is_asked_without_a_request() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        producer = Transactional(broker)
        verification = verification_of(broker)
        unknown = Question("mine", ProducerIdAndEpoch(1, 0), [AT], is_verified_only=True)
        assert await verification.ask(unknown) == {AT: ErrorCode.COORDINATOR_NOT_AVAILABLE}
        await producer.init()
        verify = question(producer, is_verified_only=True)
        assert await verification.ask(verify) == {AT: ErrorCode.TRANSACTION_ABORTABLE}
        add = question(producer, is_verified_only=False)
        assert await verification.ask(add) == {AT: ErrorCode.NONE}
        assert await verification.ask(verify) == {AT: ErrorCode.NONE}
        fenced = add._replace(producer=ProducerIdAndEpoch(producer.producer.producer_id, 9))
        assert await verification.ask(fenced) == {AT: ErrorCode.PRODUCER_FENCED}

    with_broker(test)


def test_another_broker_is_asked_where_that_coordinates() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        producer = Transactional(broker)
        await producer.init()
        cluster = add_other_broker(broker)
        cluster.answers[AddPartitionsToTxnRequest] = lambda _, request: answer(
            request, ErrorCode.INVALID_PRODUCER_ID_MAPPING
        )
        lead_by(broker, OTHER, TRANSACTION_STATE, *range(50))
        verify = question(producer, is_verified_only=True)
        said = await verification_of(broker).ask(verify)
        assert said == {AT: ErrorCode.INVALID_PRODUCER_ID_MAPPING}
        lead_by(broker, -1, TRANSACTION_STATE, *range(50))
        said = await verification_of(broker).ask(verify)
        assert said == {AT: ErrorCode.COORDINATOR_NOT_AVAILABLE}

    with_broker(test)


@pytest.mark.parametrize("has_come", [True, False])
def test_a_coordinator_that_cannot_be_asked(has_come: bool) -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        producer = Transactional(broker)
        await producer.init()
        lead_by(broker, OTHER, TRANSACTION_STATE, *range(50))
        if has_come:
            cluster = add_other_broker(broker)
            cluster.answers[AddPartitionsToTxnRequest] = lambda *_: None
        said = await verification_of(broker).ask(question(producer, is_verified_only=True))
        assert said == {AT: ErrorCode.NETWORK_EXCEPTION}

    with_broker(test)
