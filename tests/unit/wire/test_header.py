from __future__ import annotations

import struct

import pytest

from ottla.kernel.disk import FileSlice
from ottla.kernel.transport import Part
from ottla.wire.api import ApiKey
from ottla.wire.codec import MalformedMessage, decoder, encoder
from ottla.wire.header import (
    RequestHeader,
    append_request,
    append_response,
    decode_request_header,
    decode_response_header,
    encode_request_header,
    response_header_version,
)
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from tests.unit.wire.files import FakeFile


@pytest.mark.parametrize("client_id", ["rdkafka", "", "größe", None])
@pytest.mark.parametrize(("api_version", "is_flexible"), [(8, False), (9, True)])
def test_request_header(client_id: str | None, api_version: int, is_flexible: bool) -> None:
    header = RequestHeader(ApiKey.PRODUCE, api_version, 77, client_id)

    encoded = encode_request_header(header)

    text = (client_id or "").encode()
    length = -1 if client_id is None else len(text)
    expected = struct.pack(">hhih", 0, api_version, 77, length) + text
    assert encoded == expected + (b"\0" if is_flexible else b"")
    assert decode_request_header(memoryview(encoded + b"body")) == (header, len(encoded))


def test_a_controlled_shutdown_of_version_0_has_no_client_id() -> None:
    header = RequestHeader(ApiKey.CONTROLLED_SHUTDOWN, 0, 77, None)
    body = struct.pack(">i", 0x0001_6263)  # With a client id it would be "bc".

    encoded = encode_request_header(header._replace(client_id="broker-1"))

    assert encoded == struct.pack(">hhi", 7, 0, 77)
    assert decode_request_header(encoded + body) == (header, len(encoded))


def test_a_later_controlled_shutdown_has_one() -> None:
    header = RequestHeader(ApiKey.CONTROLLED_SHUTDOWN, 1, 77, "broker-1")

    encoded = encode_request_header(header)

    assert encoded == struct.pack(">hhih", 7, 1, 77, 8) + b"broker-1"
    assert decode_request_header(encoded + b"body") == (header, len(encoded))


def test_tagged_fields_of_a_header_are_skipped() -> None:
    fixed = struct.pack(">hhih", 0, 9, 77, -1)

    header, position = decode_request_header(fixed + b"\x01\x05\x02??" + b"body")

    assert header == RequestHeader(0, 9, 77, None)
    assert position == len(fixed) + 5


def test_the_header_of_an_api_versions_request_that_is_newer_than_we_are() -> None:
    frame = struct.pack(">hhih", 18, 99, 77, 1) + b"c" + b"\0" + b"who knows"

    assert decode_request_header(frame) == (RequestHeader(18, 99, 77, "c"), 12)


def test_the_header_of_an_unknown_api_can_still_be_named() -> None:
    frame = struct.pack(">hhih", 999, 3, 77, 1) + b"c"

    header, _ = decode_request_header(frame)

    assert header == RequestHeader(999, 3, 77, "c")


@pytest.mark.parametrize(
    ("frame", "complaint"),
    [
        (b"", "request header"),
        (struct.pack(">hhi", 0, 3, 1), "request header"),
        (struct.pack(">hhih", 0, 3, 1, 5) + b"abc", "client_id of length 5 in 3 bytes"),
        (struct.pack(">hhih", 0, 3, 1, -2), "client_id of length -2"),
        (struct.pack(">hhih", 0, 3, 1, 1) + b"\xff", "utf-8"),
        (struct.pack(">hhih", 0, 9, 1, -1), "index out of"),
        (struct.pack(">hhih", 0, 9, 1, -1) + b"\x01\x00\x09", "tag 0 of 9 bytes"),
    ],
)
def test_malformed_request_header(frame: bytes, complaint: str) -> None:
    with pytest.raises(MalformedMessage, match=complaint):
        decode_request_header(memoryview(frame))


def test_response_header_versions() -> None:
    assert response_header_version(ApiKey.PRODUCE, 8) == 0
    assert response_header_version(ApiKey.PRODUCE, 9) == 1
    assert response_header_version(ApiKey.API_VERSIONS, 3) == 0
    assert response_header_version(999, 3) == 0


@pytest.mark.parametrize("header_version", [0, 1])
def test_a_response_is_a_whole_frame(header_version: int) -> None:
    response = ApiVersionsResponse(error_code=35)
    earlier = b"earlier response"
    out: list[Part] = [earlier]

    append_response(77, header_version, encoder(ApiVersionsResponse, 0), response, out)

    assert out[0] is earlier
    (frame,) = out[1:]
    assert isinstance(frame, bytes)
    assert struct.unpack_from(">ii", frame) == (len(frame) - 4, 77)
    correlation_id, position = decode_response_header(frame[4:], header_version)
    assert correlation_id == 77
    assert decoder(ApiVersionsResponse, 0)(frame, 4 + position) == (response, len(frame))


def test_the_size_of_a_response_counts_records_in_files() -> None:
    records = FileSlice(FakeFile(bytes(5000)), 0, 5000)
    response = FetchResponse(
        responses=[FetchableTopicResponse(topic="t", partitions=[PartitionData(records=records)])]
    )
    out: list[Part] = []

    append_response(1, 1, encoder(FetchResponse, 12), response, out)

    head = out[0]
    assert isinstance(head, bytes)
    assert struct.unpack_from(">i", head)[0] == sum(map(len, out)) - 4
    assert records in out


def test_a_request_is_a_whole_frame() -> None:
    header = RequestHeader(ApiKey.API_VERSIONS, 3, 77, "c")
    request = ApiVersionsRequest(client_software_name="ottla", client_software_version="1")
    out: list[Part] = []

    append_request(header, encoder(ApiVersionsRequest, 3), request, out)

    frame = b"".join(part for part in out if isinstance(part, bytes))
    assert struct.unpack_from(">i", frame)[0] == len(frame) - 4
    decoded, position = decode_request_header(frame[4:])
    assert decoded == header
    assert decoder(ApiVersionsRequest, 3)(frame[4:], position) == (request, len(frame) - 4)


@pytest.mark.parametrize(("frame", "version"), [(b"\0\0\0", 0), (b"\0\0\0\0", 1)])
def test_malformed_response_header(frame: bytes, version: int) -> None:
    with pytest.raises(MalformedMessage, match="response header"):
        decode_response_header(frame, version)
