"""The short cut of a produce request and the general way read the same, and answer the same."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ottla.kernel.ids import TopicId
from ottla.kernel.transport import Part
from ottla.wire.codec import decoder, encoder
from ottla.wire.header import (
    RequestHeader,
    append_request,
    append_response,
    decode_request_header,
)
from ottla.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from ottla.wire.produce_heads import HEADS_SINCE, ProduceHead, ProduceHeads

_VERSIONS = st.integers(HEADS_SINCE, ProduceRequest.VERSIONS.stop - 1)
_INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
_INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
# Around the sizes at which a varint gets another byte.
_RECORDS = st.binary(max_size=200) | st.sampled_from(
    [0, 1, 126, 127, 128, 16_382, 16_383, 16_384, 2_097_151]
).map(bytes)


def always(head: ProduceHead, client_id: str | None) -> bool:
    return True


@st.composite
def requests(draw: st.DrawFn, version: int, *, count_max: int = 2) -> ProduceRequest:
    views = _RECORDS.map(lambda records: memoryview(records))

    def topic() -> TopicProduceData:
        partitions = [
            PartitionProduceData(index=draw(_INT32), records=draw(st.none() | views))
            for _ in range(draw(st.integers(0, count_max)))
        ]
        name, topic_id = draw(st.text(max_size=140)), draw(st.binary(min_size=16, max_size=16))
        if version >= 13:
            return TopicProduceData(topic_id=TopicId(topic_id), partition_data=partitions)
        return TopicProduceData(name=name, partition_data=partitions)

    return ProduceRequest(
        transactional_id=draw(st.none() | st.text(max_size=9)),
        acks=draw(st.sampled_from([-1, 0, 1, 2])),
        timeout_ms=draw(_INT32),
        topic_data=[topic() for _ in range(draw(st.integers(0, count_max)))],
    )


@st.composite
def plain_requests(draw: st.DrawFn, version: int) -> ProduceRequest:
    """Those that have a head."""
    request = draw(requests(version))
    records = memoryview(draw(_RECORDS))
    request.transactional_id = None
    request.acks = draw(st.sampled_from([-1, 1]))
    topic = TopicProduceData(partition_data=[PartitionProduceData(records=records)])
    if version >= 13:
        topic.topic_id = TopicId(draw(st.binary(min_size=16, max_size=16)))
    else:
        topic.name = draw(st.text(max_size=30))
    topic.partition_data[0].index = draw(_INT32)
    request.topic_data = [topic]
    return request


def frame_of(
    request: ProduceRequest, version: int, correlation_id: int, client_id: str | None
) -> bytearray:
    out: list[Part] = []
    header = RequestHeader(ProduceRequest.API_KEY, version, correlation_id, client_id)
    append_request(header, encoder(ProduceRequest, version), request, out)
    return bytearray(b"".join(bytes(part) for part in out if not hasattr(part, "file")))[4:]


def assert_found_as_decoded(heads: ProduceHeads, frame: bytearray, version: int) -> bool:
    """Whether it was found."""
    found = heads.find(memoryview(frame))
    if found is None:
        return False
    head, correlation_id, records = found
    header, position = decode_request_header(memoryview(frame))
    request, end = decoder(ProduceRequest, version)(memoryview(frame), position)
    (topic,) = request.topic_data
    (partition,) = topic.partition_data
    assert (header.api_version, header.correlation_id) == (version, correlation_id)
    assert (request.transactional_id is not None) == head.has_transactional_id
    assert request.acks == head.acks
    assert (topic.name, topic.topic_id) == (head.name, head.topic_id)
    assert (partition.index, partition.records) == (head.index, records)
    assert end == len(frame)
    return True


@given(st.data(), _VERSIONS, st.none() | st.text(max_size=40))
def test_a_request_is_found_whatever_its_records(
    data: st.DataObject, version: int, client_id: str | None
) -> None:
    heads = ProduceHeads(version)
    request = data.draw(plain_requests(version))
    frame = frame_of(request, version, data.draw(_INT32), client_id)
    assert heads.find(memoryview(frame)) is None
    heads.learn(memoryview(frame), always)
    assert assert_found_as_decoded(heads, frame, version)

    request.topic_data[0].partition_data[0].records = memoryview(data.draw(_RECORDS))
    again = frame_of(request, version, data.draw(_INT32), client_id)
    assert assert_found_as_decoded(heads, again, version)


@given(st.data(), _VERSIONS, st.none() | st.text(max_size=4))
def test_no_request_is_found_as_another(
    data: st.DataObject, version: int, client_id: str | None
) -> None:
    """Any requests are learnt; then any others, and what becomes of these by changes here and
    there, are found as what they are, or not at all."""
    heads = ProduceHeads(version)
    kinds = st.one_of(plain_requests(version), requests(version))
    frames = [
        frame_of(request, version, 1, client_id)
        for request in data.draw(st.lists(kinds, min_size=1, max_size=4))
    ]
    for frame in frames:
        heads.learn(memoryview(frame), always)
    for frame in frames:
        assert_found_as_decoded(heads, frame, version)
        for _ in range(data.draw(st.integers(1, 3))):
            at = data.draw(st.integers(4, len(frame)))
            stop = data.draw(st.integers(at, min(len(frame), at + 3)))
            frame[at:stop] = data.draw(st.binary(max_size=3))
        assert_found_as_decoded(heads, frame, version)


@given(st.binary(max_size=60), _VERSIONS)
def test_no_bytes_do_harm(frame: bytes, version: int) -> None:
    assert ProduceHeads(version).find(memoryview(frame)) is None


@given(st.data(), _VERSIONS, _INT32, _INT64, _INT64, _INT64)
def test_an_answer_is_what_the_encoder_makes(
    data: st.DataObject, version: int, correlation_id: int, offset: int, time: int, start: int
) -> None:
    heads = ProduceHeads(version)
    request = data.draw(plain_requests(version))
    frame = frame_of(request, version, correlation_id, "me")
    heads.learn(memoryview(frame), always)
    found = heads.find(memoryview(frame))
    assert found is not None

    (topic,) = request.topic_data
    partition = PartitionProduceResponse(
        index=topic.partition_data[0].index,
        base_offset=offset,
        log_append_time_ms=time,
        log_start_offset=start,
    )
    answer = TopicProduceResponse(
        name=topic.name, topic_id=topic.topic_id, partition_responses=[partition]
    )
    out: list[Part] = []
    encode = encoder(ProduceResponse, version)
    append_response(correlation_id, 1, encode, ProduceResponse(responses=[answer]), out)
    assert [found[0].reply(correlation_id, offset, time, start)] == out
