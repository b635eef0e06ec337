from __future__ import annotations

import pytest

from ottla.kernel.disk import FileSlice
from ottla.kernel.transport import Part
from ottla.wire.codec import MalformedMessage, codec, decode, decoder, encode, encoder
from ottla.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.unit.wire.files import FakeFile


def test_a_message_round_trips() -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name="events")])
    out: list[Part] = []

    encode(request, 12, out)

    (body,) = out
    assert isinstance(body, bytes)
    assert decode(MetadataRequest, 12, b"??" + body, 2) == (request, 2 + len(body))


def test_codecs_are_compiled_once() -> None:
    assert decoder(ProduceRequest, 9) is decoder(ProduceRequest, 9)
    assert encoder(ProduceRequest, 9) is encoder(ProduceRequest, 9)
    assert codec(ProduceRequest, 9) == (decoder(ProduceRequest, 9), encoder(ProduceRequest, 9))
    assert decoder(ProduceRequest, 9) is not decoder(ProduceRequest, 8)


@pytest.mark.parametrize("version", [2, 14, -1])
def test_a_version_that_does_not_exist(version: int) -> None:
    with pytest.raises(ValueError, match=f"ProduceRequest has no version {version}"):
        decoder(ProduceRequest, version)
    with pytest.raises(ValueError, match=f"ProduceRequest has no version {version}"):
        encoder(ProduceRequest, version)


@pytest.mark.parametrize("version", [3, 9])
def test_records_are_decoded_as_views_of_the_frame(version: int) -> None:
    partition = PartitionProduceData(index=1, records=memoryview(b"batch"))
    request = ProduceRequest(
        topic_data=[TopicProduceData(name="events", partition_data=[partition])]
    )
    out: list[Part] = []
    encode(request, version, out)
    frame = bytearray().join(bytes(part) for part in out if not isinstance(part, FileSlice))

    decoded, _ = decode(ProduceRequest, version, memoryview(frame))

    records = decoded.topic_data[0].partition_data[0].records
    assert records is not None
    records[:] = b"BATCH"
    assert b"BATCH" in frame


@pytest.mark.parametrize(("version", "length"), [(11, b"\0\0\0\x09"), (12, b"\x0a")])
def test_records_in_files_are_parts_that_nobody_copies(version: int, length: bytes) -> None:
    file = FakeFile(b"0123456789")
    slices = [FileSlice(file, 0, 4), FileSlice(file, 5, 5)]
    response = FetchResponse(
        responses=[
            FetchableTopicResponse(
                topic="events",
                partitions=[
                    PartitionData(partition_index=0, records=slices),
                    PartitionData(partition_index=1, records=None),
                    PartitionData(partition_index=2, records=FileSlice(file, 1, 9)),
                ],
            )
        ]
    )
    out: list[Part] = []

    encode(response, version, out)

    head, first, second, between, third, *tail = out
    assert [first, second] == slices
    assert isinstance(third, FileSlice)
    assert isinstance(head, bytes)
    assert head.endswith(length)
    assert isinstance(between, bytes)
    assert between.endswith(length)
    assert len(tail) == (1 if version == 12 else 0)


def test_malformed_messages_are_value_errors_that_say_what_is_wrong() -> None:
    with pytest.raises(ValueError, match="topics of length 2147483647 in 0 bytes"):
        decode(MetadataRequest, 1, b"\x7f\xff\xff\xff")
    with pytest.raises(MalformedMessage, match="MetadataRequest version 1"):
        decode(MetadataRequest, 1, b"\x7f\xff")
