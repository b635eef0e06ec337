from __future__ import annotations

import pytest

from ottla.client.exchange import Exchange
from ottla.kernel.transport import Part
from ottla.wire.codec import MalformedMessage, codec
from ottla.wire.framing import FrameTooLarge
from ottla.wire.header import append_response
from ottla.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from ottla.wire.schema import Response

VERSION = 9


def response_bytes(correlation_id: int, response: Response, version: int = VERSION) -> bytes:
    parts: list[Part] = []
    append_response(correlation_id, 1, codec(type(response), version).encode, response, parts)
    return b"".join(parts)  # type: ignore[arg-type]


def receive(exchange: Exchange[str], piece: bytes) -> list[tuple[str, Response]]:
    found: list[tuple[str, Response]] = []
    while piece:
        buffer = exchange.get_buffer()
        count = min(len(buffer), len(piece))
        buffer[:count] = piece[:count]
        found += exchange.bytes_received(count)
        piece = piece[count:]
    return found


def test_each_waiter_gets_its_own_response_in_order() -> None:
    exchange: Exchange[str] = Exchange("me")
    for name in ("first", "second"):
        exchange.request(MetadataRequest(), VERSION, name)

    both = response_bytes(0, MetadataResponse(controller_id=7)) + response_bytes(
        1, MetadataResponse(controller_id=8)
    )

    assert receive(exchange, both[:9]) == []
    assert receive(exchange, both[9:]) == [
        ("first", MetadataResponse(controller_id=7)),
        ("second", MetadataResponse(controller_id=8)),
    ]


def test_who_waits_is_told_when_it_is_over() -> None:
    exchange: Exchange[str] = Exchange("me")
    exchange.request(MetadataRequest(), VERSION, "first")
    exchange.unanswered_request(MetadataRequest(), VERSION)
    exchange.request(MetadataRequest(), VERSION, "third")

    assert exchange.abandon() == ["first", "third"]
    assert exchange.abandon() == []


@pytest.mark.parametrize("size", [100, 5_000_000], ids=["small", "large"])
def test_a_response_keeps_its_bytes_when_the_next_one_comes(size: int) -> None:
    exchange: Exchange[str] = Exchange("me")
    found: list[memoryview] = []
    for number, fill in enumerate((b"a", b"b")):
        exchange.request(FetchRequest(), 12, "waiter")
        partition = PartitionData(records=fill * size)
        response = FetchResponse(responses=[FetchableTopicResponse(partitions=[partition])])
        ((_, answer),) = receive(exchange, response_bytes(number, response, 12))
        assert isinstance(answer, FetchResponse)
        records = answer.responses[0].partitions[0].records
        assert isinstance(records, memoryview)
        found.append(records)

    assert [bytes(records) for records in found] == [b"a" * size, b"b" * size]


def test_what_cannot_be_is_refused() -> None:
    exchange: Exchange[str] = Exchange("me")
    with pytest.raises(MalformedMessage, match="nobody asked"):
        receive(exchange, response_bytes(0, MetadataResponse()))

    exchange = Exchange("me")
    exchange.request(MetadataRequest(), VERSION, "first")
    with pytest.raises(MalformedMessage, match="response 5 came where 0 was due"):
        receive(exchange, response_bytes(5, MetadataResponse()))

    with pytest.raises(FrameTooLarge):
        receive(Exchange("me"), b"\x7f\xff\xff\xff")


def test_a_request_that_its_version_cannot_say_leaves_no_trace() -> None:
    exchange: Exchange[str] = Exchange("me")
    with pytest.raises(ValueError, match="allow_auto_topic_creation"):
        exchange.request(MetadataRequest(topics=[], allow_auto_topic_creation=False), 1, "first")

    exchange.request(MetadataRequest(), VERSION, "second")
    assert receive(exchange, response_bytes(0, MetadataResponse())) == [
        ("second", MetadataResponse())
    ]
