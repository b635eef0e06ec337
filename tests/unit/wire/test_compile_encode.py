from __future__ import annotations

import pytest

from ottla.kernel.transport import Part
from ottla.wire.codec import encoder, encoder_source
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from ottla.wire.messages.produce import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from ottla.wire.schema import Message, Response, array, int16, int32, string
from tests.unit.wire.test_compile_decode import LOOSE, V0, V2, Item, Loose, Point, Thing


def encoded(message: Message, version: int) -> bytes:
    out: list[Part] = []
    encoder(type(message), version)(message, out)
    (body,) = out
    assert isinstance(body, bytes)
    return body


def thing(**values: object) -> Thing:
    return Thing(
        id=b"i" * 16,
        name="ab",
        data=b"d",
        numbers=[7, -7],
        items=[Item(index=9, name="n")],
        **values,  # type: ignore[arg-type]
    )


def test_the_source_reads_as_if_written_by_hand_for_the_version() -> None:
    class PongResponse(Response, api_key=902, versions="0-1", flexible="1+"):
        error_code: int = int16()
        message: str | None = string(nullable="0+")
        node_ids: list[int] = array(int32())

    assert encoder_source(PongResponse, 0) == (
        """\
def encode(pong_response, out):
    chunks = []
    append = chunks.append
    message_bytes = None if pong_response.message is None else pong_response.message.encode()
    append(pack_hh(pong_response.error_code, -1 if message_bytes is None else len(message_bytes)))
    if message_bytes:
        append(message_bytes)
    node_ids_items = pong_response.node_ids
    append(pack_i(len(node_ids_items)))
    if node_ids_items:
        append(fixed_array('i', node_ids_items))
    out.append(b''.join(chunks))
"""
    )


def test_every_kind_of_field() -> None:
    assert encoded(thing(flag=True), 0) == V0
    assert encoded(thing(names=["s"], place=Point(x=1, label="l")), 2) == V2 + b"\x00"


def test_nulls() -> None:
    empty = Thing(name=None, data=None, items=None)

    assert encoded(empty, 1) == bytes(17) + b"\xff" * 6 + bytes(8) + b"\xff" * 4
    assert encoded(empty, 2) == bytes(17) + b"\0\0" + b"\x01\x01" + b"\0" + b"\xff" + b"\0"


@pytest.mark.parametrize(("loose", "body"), LOOSE)
def test_structs_and_arrays_that_may_be_null(loose: Loose, body: bytes) -> None:
    assert encoded(loose, 0) == body


def test_tagged_fields_are_sent_in_order_and_only_if_they_say_something() -> None:
    equal_to_default = Point(x=-1)
    assert encoded(thing(tagged_point=equal_to_default), 2).endswith(b"\xff\x00")

    assert encoded(thing(tagged_point=Point(x=2), tagged_number=6), 2).endswith(
        b"\xff\x02\x01\x04\x00\x00\x00\x06\x03\x06\x00\x00\x00\x02\x01\x00"
    )


def test_tagged_structs_within_arrays_and_beside_them() -> None:
    response = ProduceResponse(
        responses=[
            TopicProduceResponse(
                name="t",
                partition_responses=[
                    PartitionProduceResponse(
                        current_leader=LeaderIdAndEpoch(leader_id=1, leader_epoch=2)
                    )
                ],
            )
        ],
        node_endpoints=[NodeEndpoint(node_id=1, host="h", port=9)],
    )

    body = encoded(response, 10)

    assert b"\x01" + b"\x00\x09" + b"\0\0\0\x01" + b"\0\0\0\x02" + b"\x00" in body
    assert body.endswith(
        b"\x01" + b"\x00\x0d" + b"\x02" + b"\0\0\0\x01" + b"\x02h" + b"\0\0\0\x09" + b"\0\0"
    )


def test_what_a_version_lacks_is_left_out() -> None:
    with_leader = PartitionProduceResponse(
        error_message="moved", current_leader=LeaderIdAndEpoch(leader_id=1, leader_epoch=2)
    )
    responses = [TopicProduceResponse(name="t", partition_responses=[with_leader])]

    assert encoded(ProduceResponse(responses=responses), 7) == encoded(
        ProduceResponse(
            responses=[
                TopicProduceResponse(name="t", partition_responses=[PartitionProduceResponse()])
            ]
        ),
        7,
    )


def test_what_would_change_a_request_is_not_dropped_silently() -> None:
    old = FetchRequest(replica_id=3)
    new = FetchRequest(replica_state=ReplicaState(replica_id=3, replica_epoch=7))
    epoch = FetchRequest(
        topics=[FetchTopic(topic="t", partitions=[FetchPartition(last_fetched_epoch=1)])]
    )

    with pytest.raises(ValueError, match="version 15 has no replica_id"):
        encoded(old, 15)
    with pytest.raises(ValueError, match="version 14 has no replica_state"):
        encoded(new, 14)
    with pytest.raises(ValueError, match="version 11 has no last_fetched_epoch"):
        encoded(epoch, 11)
    assert encoded(old, 14)
    assert encoded(new, 15)
