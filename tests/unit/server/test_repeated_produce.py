from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from ottla.client.connection import ClientConnection
from ottla.kernel.errors import ErrorCode
from ottla.kernel.transport import Part
from ottla.records.batch import CRC_AT
from ottla.server.repeated_produce import RepeatedProduce
from ottla.wire.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from ottla.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tests.support.simulated_broker import PORT, SimulatedBroker, make_batch, with_broker
from tests.support.simulated_transaction import Transactional

Answers = list[ProduceResponse]
Script = Callable[[SimulatedBroker, int], Coroutine[Any, Any, Answers]]

PRODUCER = {"producer_id": 7, "producer_epoch": 0}


def request_of(
    topic: bytes | str, batch: bytes | bytearray, transactional_id: str | None = None
) -> ProduceRequest:
    data = [PartitionProduceData(index=0, records=memoryview(batch))]
    if isinstance(topic, str):
        asked = TopicProduceData(name=topic, partition_data=data)
    else:
        asked = TopicProduceData(topic_id=topic, partition_data=data)  # type: ignore[arg-type]
    return ProduceRequest(
        transactional_id=transactional_id, acks=-1, timeout_ms=100, topic_data=[asked]
    )


async def produce(
    broker: SimulatedBroker,
    topic: bytes | str,
    batch: bytes | bytearray,
    version: int,
    transactional_id: str | None = None,
) -> ProduceResponse:
    return await broker.call(request_of(topic, batch, transactional_id), ProduceResponse, version)


async def new_topic(broker: SimulatedBroker, version: int, **config: str) -> bytes | str:
    """As requests of this version name it."""
    topic_id = await broker.create_topic("t", 1, **config)
    return topic_id if version >= 13 else "t"


def codes(answers: Answers) -> list[int]:
    return [answer.responses[0].partition_responses[0].error_code for answer in answers]


def offsets(answers: Answers) -> list[int]:
    return [answer.responses[0].partition_responses[0].base_offset for answer in answers]


def run(script: Script, version: int) -> tuple[Answers, int]:
    """The answers, and how many requests were answered the short way. The same script, gone the
    general way, must be answered alike."""
    answers: dict[bool, Answers] = {}
    short_count = 0
    with pytest.MonkeyPatch.context() as patch:
        answer = RepeatedProduce.answer

        def counted(self: RepeatedProduce, frame: memoryview) -> list[Part] | None:
            nonlocal short_count
            reply = answer(self, frame)
            short_count += reply is not None
            return reply

        def never(self: RepeatedProduce, frame: memoryview) -> None:
            return None

        for is_short in (True, False):
            patch.setattr(RepeatedProduce, "answer", counted if is_short else never)

            async def test(broker: SimulatedBroker, is_short: bool = is_short) -> None:
                answers[is_short] = await script(broker, version)

            with_broker(test)
    assert answers[True] == answers[False]
    return answers[True], short_count


@pytest.mark.parametrize("version", [9, 12, 13])
@pytest.mark.parametrize("timestamp_type", ["CreateTime", "LogAppendTime"])
def test_a_repeated_request_is_answered_the_short_way(version: int, timestamp_type: str) -> None:
    async def script(broker: SimulatedBroker, version: int) -> Answers:
        topic = await new_topic(broker, version, message_timestamp_type=timestamp_type)
        sizes = (1, 1, 1, 20, 200, 20_000)
        batches = [make_batch(b"v" * size, b"w") for size in sizes]
        return [await produce(broker, topic, batch, version) for batch in batches]

    answers, short_count = run(script, version)
    assert offsets(answers) == [0, 2, 4, 6, 8, 10]
    # The first makes the route, the second is learnt from.
    assert short_count == 4


@pytest.mark.parametrize("version", [12, 13])
def test_what_fails_is_told_as_the_handler_tells_it(version: int) -> None:
    async def script(broker: SimulatedBroker, version: int) -> Answers:
        topic = await new_topic(broker, version, max_message_bytes="10000")
        corrupt = make_batch(b"v")
        corrupt[CRC_AT] ^= 1
        batches: list[bytes | bytearray] = [
            make_batch(b"v"),
            make_batch(b"v"),
            corrupt,
            make_batch(b"v" * 11_000),
            b"",
            b"short",
            make_batch(b"v", base_sequence=0, is_transactional=True, **PRODUCER),
            make_batch(b"v"),
        ]
        return [await produce(broker, topic, batch, version) for batch in batches]

    answers, short_count = run(script, version)
    assert codes(answers)[2:4] == [ErrorCode.CORRUPT_MESSAGE, ErrorCode.MESSAGE_TOO_LARGE]
    assert all(codes(answers)[4:7])
    assert offsets(answers)[7] == 2
    assert short_count == 1


@pytest.mark.parametrize("version", [12, 13])
@pytest.mark.parametrize("timestamp_type", ["CreateTime", "LogAppendTime"])
def test_a_duplicate_is_answered_like_the_first_and_a_gap_is_refused(
    version: int, timestamp_type: str
) -> None:
    async def script(broker: SimulatedBroker, version: int) -> Answers:
        topic = await new_topic(broker, version, message_timestamp_type=timestamp_type)
        batches = [make_batch(b"v", base_sequence=one, **PRODUCER) for one in (0, 1, 2, 1, 5, 3)]
        return [await produce(broker, topic, batch, version) for batch in batches]

    answers, short_count = run(script, version)
    assert offsets(answers) == [0, 1, 2, 1, -1, 3]
    assert codes(answers)[4] == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert short_count == 3


@pytest.mark.parametrize("version", [12, 13])
@pytest.mark.parametrize("timestamp_type", ["CreateTime", "LogAppendTime"])
def test_batches_of_an_open_transaction_are_answered_the_short_way(
    version: int, timestamp_type: str
) -> None:
    async def script(broker: SimulatedBroker, version: int) -> Answers:
        topic = await new_topic(broker, version, message_timestamp_type=timestamp_type)
        producer = Transactional(broker)
        await producer.init()
        answers: Answers = []

        async def send(sequence: int, *, name: str | None = "mine", **fields: Any) -> None:
            batch = make_batch(
                b"v", **{"base_sequence": sequence, "is_transactional": True, **fields}
            )
            answers.append(await produce(broker, topic, batch, version, name))

        late = producer.producer._asdict()
        for sequence in range(4):
            await send(sequence, **late)
        await send(9, **late)
        await send(4, name=None, **late)
        await send(4, is_transactional=False, **late)
        await producer.commit()
        await send(4, **late)
        following = producer.producer._asdict()
        await send(0, **following)
        await send(1, **following)
        return answers

    answers, short_count = run(script, version)
    assert offsets(answers) == [0, 1, 2, 3, -1, -1, -1, -1, 5, 6]
    assert codes(answers)[4:8] == [
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.INVALID_PRODUCER_EPOCH,
    ]
    # The first of a transaction never is; the second is learnt from.
    assert short_count == 3


@pytest.mark.parametrize("version", [12, 13])
def test_a_topic_may_go_and_come_again(version: int) -> None:
    async def script(broker: SimulatedBroker, version: int) -> Answers:
        topic = await new_topic(broker, version)
        answers = [await produce(broker, topic, make_batch(b"v"), version) for _ in range(3)]
        gone = DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=1000)
        await broker.call(gone, DeleteTopicsResponse)
        answers.append(await produce(broker, topic, make_batch(b"v"), version))
        await broker.create_topic("t")
        answers.append(await produce(broker, topic, make_batch(b"v"), version))
        return answers

    answers, _ = run(script, version)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if version < 13 else ErrorCode.UNKNOWN_TOPIC_ID
    assert codes(answers)[3] == unknown
    assert codes(answers)[4] == (ErrorCode.NONE if version < 13 else unknown)


def test_what_must_wait_goes_the_general_way() -> None:
    async def script(broker: SimulatedBroker, version: int) -> Answers:
        topic = await new_topic(broker, version, compression_type="gzip")
        return [await produce(broker, topic, make_batch(b"v"), version) for _ in range(4)]

    answers, short_count = run(script, 12)
    assert offsets(answers) == [0, 1, 2, 3]
    assert short_count == 0


def test_internal_topics_stay_closed() -> None:
    async def script(broker: SimulatedBroker, version: int) -> Answers:
        await broker.create_topic("__consumer_offsets")
        name = "__consumer_offsets"
        return [await produce(broker, name, make_batch(b"v"), version) for _ in range(4)]

    answers, short_count = run(script, 12)
    assert codes(answers) == [ErrorCode.INVALID_TOPIC_EXCEPTION] * 4
    assert short_count == 0


def test_a_head_is_that_of_its_client() -> None:
    """One who may write to a topic of brokers opens it to nobody else."""

    async def script(broker: SimulatedBroker, version: int) -> Answers:
        name = "__consumer_offsets"
        await broker.create_topic(name)
        admin = await ClientConnection.open(
            broker.network, "localhost", PORT, client_id="__admin_client"
        )
        answers: Answers = []
        for _ in range(4):
            request = request_of(name, make_batch(b"v"))
            answers.append(await admin.call(request, ProduceResponse, version))
            answers.append(await produce(broker, name, make_batch(b"v"), version))
        return answers

    answers, short_count = run(script, 12)
    assert codes(answers) == [ErrorCode.NONE, ErrorCode.INVALID_TOPIC_EXCEPTION] * 4
    assert short_count == 2
