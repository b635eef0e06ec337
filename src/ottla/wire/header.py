"""What stands before every request and response: the header, and the size of the frame.

A request header of version 2 (that of flexible requests) ends in tagged fields; its client id keeps
the old two-byte length nevertheless, so that a broker can read the header of an ApiVersions
request that is newer than itself (KIP-511). A response header of version 1 has tagged fields
too, except for ApiVersions: its client does not know yet what this broker speaks, so that
response has a header of version 0 always.

A ControlledShutdown of version 0 is older than client ids: its header ends before that."""

from __future__ import annotations

import struct
from typing import NamedTuple, TypeVar

from ottla.kernel.disk import Buffer
from ottla.kernel.transport import Part
from ottla.wire.api import FIRST_FLEXIBLE_VERSION, ApiKey
from ottla.wire.codec import Encode
from ottla.wire.primitives import MalformedMessage, skip_tagged_fields
from ottla.wire.schema import Message

_FIXED_PART = struct.Struct(">hhih")
_WITHOUT_CLIENT_ID = struct.Struct(">hhi")
_NEVER = 0x8000

M = TypeVar("M", bound=Message)


class RequestHeader(NamedTuple):
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def decode_request_header(frame: Buffer) -> tuple[RequestHeader, int]:
    """The header, and where the body begins. Of an API that is not in our table it reads what
    all headers have, enough to name it in a log; there is no body to go on with."""
    try:
        api_key, api_version, correlation_id, length = _FIXED_PART.unpack_from(frame)
        if api_version == 0 and api_key == ApiKey.CONTROLLED_SHUTDOWN:
            header = RequestHeader(api_key, api_version, correlation_id, None)
            return header, _WITHOUT_CLIENT_ID.size
        position = 10
        client_id = None
        if length >= 0:
            position += length
            if position > len(frame):
                raise MalformedMessage(f"client_id of length {length} in {len(frame) - 10} bytes")
            client_id = str(frame[10:position], "utf-8")
        elif length != -1:
            raise MalformedMessage(f"client_id of length {length}")
        if api_version >= FIRST_FLEXIBLE_VERSION.get(api_key, _NEVER):
            if frame[position]:
                position = skip_tagged_fields(memoryview(frame), position, len(frame))
            else:
                position += 1
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise MalformedMessage(f"request header: {error}") from error
    return RequestHeader(api_key, api_version, correlation_id, client_id), position


def encode_request_header(header: RequestHeader) -> bytes:
    if header.api_version == 0 and header.api_key == ApiKey.CONTROLLED_SHUTDOWN:
        return _WITHOUT_CLIENT_ID.pack(*header[:3])
    client_id = None if header.client_id is None else header.client_id.encode()
    length = -1 if client_id is None else len(client_id)
    fixed = _FIXED_PART.pack(header.api_key, header.api_version, header.correlation_id, length)
    flexible = header.api_version >= FIRST_FLEXIBLE_VERSION.get(header.api_key, _NEVER)
    return fixed + (client_id or b"") + (b"\0" if flexible else b"")


def response_header_version(api_key: int, api_version: int) -> int:
    if api_key == ApiKey.API_VERSIONS:
        return 0
    return 1 if api_version >= FIRST_FLEXIBLE_VERSION.get(api_key, _NEVER) else 0


def decode_response_header(frame: Buffer, header_version: int) -> tuple[int, int]:
    """The correlation id, and where the body begins."""
    try:
        (correlation_id,) = struct.unpack_from(">i", frame)
        position = 4
        if header_version:
            position = skip_tagged_fields(memoryview(frame), position, len(frame))
    except (struct.error, IndexError) as error:
        raise MalformedMessage(f"response header: {error}") from error
    return correlation_id, position


# Size of the frame and header in one: the header of version 1 ends in an empty section of tags.
_PREFIXES = (struct.Struct(">ii"), struct.Struct(">iix"))


def append_response(
    correlation_id: int, header_version: int, encode: Encode[M], message: M, out: list[Part]
) -> None:
    """Appends a whole frame: its size, the response header and the message."""
    start = len(out)
    encode(message, out)
    prepend_response_header(correlation_id, header_version, out, start)


def prepend_response_header(
    correlation_id: int, header_version: int, out: list[Part], start: int = 0
) -> None:
    """Before a message whose parts begin at `start`, with the size of the frame."""
    prefix = _PREFIXES[header_version]
    size = prefix.size - 4
    for index in range(start, len(out)):
        size += len(out[index])
    first = out[start]
    assert type(first) is bytes, "an encoder began with a part that is not its own"
    out[start] = prefix.pack(size, correlation_id) + first


def append_request(header: RequestHeader, encode: Encode[M], message: M, out: list[Part]) -> None:
    """Appends a whole frame: its size, the request header and the message."""
    start = len(out)
    encode(message, out)
    head = encode_request_header(header)
    size = len(head) + sum(len(part) for part in out[start:])
    out.insert(start, struct.pack(">i", size) + head)
