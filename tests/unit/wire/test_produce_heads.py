"""That it reads and answers as the general way does is in tests/property/wire."""

from __future__ import annotations

import pytest

from ottla.kernel.ids import NO_TOPIC_ID
from ottla.kernel.transport import Part
from ottla.wire.codec import encoder
from ottla.wire.header import RequestHeader, append_request
from ottla.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from ottla.wire.produce_heads import (
    HEAD_BYTES_MAX,
    HEAD_COUNT_MAX,
    ProduceHead,
    ProduceHeads,
)

VERSION = 12


def always(head: ProduceHead, client_id: str | None) -> bool:
    return True


def frame_of(
    *,
    topics: int = 1,
    index: int = 0,
    partitions: int = 1,
    acks: int = -1,
    client_id: str | None = "me",
    correlation_id: int = 7,
    name: str = "t",
    transactional_id: str | None = None,
    records: bytes = b"records",
) -> memoryview:
    data = [
        PartitionProduceData(index=index + more, records=memoryview(records))
        for more in range(partitions)
    ]
    topic = TopicProduceData(name=name, partition_data=data)
    request = ProduceRequest(
        transactional_id=transactional_id, acks=acks, timeout_ms=1000, topic_data=[topic] * topics
    )
    out: list[Part] = []
    header = RequestHeader(ProduceRequest.API_KEY, VERSION, correlation_id, client_id)
    append_request(header, encoder(ProduceRequest, VERSION), request, out)
    return memoryview(b"".join(bytes(part) for part in out if not hasattr(part, "file")))[4:]


def test_only_what_was_learnt_is_found() -> None:
    heads = ProduceHeads(VERSION)
    heads.learn(frame_of(), always)

    found = heads.find(frame_of(correlation_id=8, records=b"others"))
    assert found is not None
    head, correlation_id, records = found
    assert (correlation_id, bytes(records)) == (8, b"others")
    assert (head.name, head.topic_id, head.index, head.acks) == ("t", NO_TOPIC_ID, 0, -1)
    for other in (
        frame_of(index=1),
        frame_of(acks=1),
        frame_of(name="u"),
        frame_of(client_id="you"),
        frame_of(client_id=None),
    ):
        assert heads.find(other) is None


@pytest.mark.parametrize("transactional_id", ["", "a", "a" * 126])
def test_a_transactional_id_is_part_of_the_head(transactional_id: str) -> None:
    heads = ProduceHeads(VERSION)
    heads.learn(frame_of(transactional_id=transactional_id), always)

    found = heads.find(frame_of(transactional_id=transactional_id, records=b"others"))
    assert found is not None
    head, _, records = found
    assert head.has_transactional_id
    assert bytes(records) == b"others"
    assert heads.find(frame_of(transactional_id="b" * len(transactional_id) or "b")) is None
    assert heads.find(frame_of(transactional_id=None)) is None
    heads.learn(frame_of(), always)
    plain = heads.find(frame_of())
    assert plain is not None
    assert not plain[0].has_transactional_id


@pytest.mark.parametrize(
    "frame",
    [
        frame_of(topics=2),
        frame_of(topics=0),
        frame_of(partitions=2),
        frame_of(partitions=0),
        frame_of(acks=0),
        frame_of(acks=2),
        frame_of(transactional_id="a" * 127),
        frame_of(name="t" * 127),
        frame_of(client_id="c" * HEAD_BYTES_MAX),
    ],
)
def test_other_forms_go_the_general_way(frame: memoryview) -> None:
    heads = ProduceHeads(VERSION)
    heads.learn(frame, always)
    assert heads.find(frame) is None
    assert len(heads) == 0


@pytest.mark.parametrize("tail", [b"", b"\0\0", b"\0\0\0\0", b"\0\0\1\0\0"])
def test_what_follows_the_records_must_be_nothing(tail: bytes) -> None:
    heads = ProduceHeads(VERSION)
    frame = frame_of()
    heads.learn(frame, always)
    assert heads.find(memoryview(bytes(frame[:-3]) + tail)) is None


def test_as_many_are_kept_as_there_is_room_for() -> None:
    heads = ProduceHeads(VERSION)
    for index in range(HEAD_COUNT_MAX + 1):
        heads.learn(frame_of(index=index), always)
    assert 1 <= len(heads) <= HEAD_COUNT_MAX
    assert heads.find(frame_of(index=HEAD_COUNT_MAX)) is not None


def test_what_is_not_worth_it_is_not_kept() -> None:
    heads = ProduceHeads(VERSION)
    heads.learn(frame_of(name="absent"), lambda head, client_id: head.name != "absent")
    assert len(heads) == 0
    heads.learn(frame_of(), lambda head, client_id: head.name != "absent")
    assert len(heads) == 1
