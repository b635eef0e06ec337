"""Records as JSON, one object a line: what `consume --json` writes and `produce --json` reads.

{"topic", "partition", "offset", "timestamp", "timestamp_type", "key", "value", "headers"}, where
headers is [{"key", "value"}, ...], since Kafka keeps their order and allows one name twice. Bytes
that are not UTF-8 stand as base64 in key_base64 and value_base64, in the place of key and value.
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any, NamedTuple

# Fields that say where a record was, and not what it is; a reader of `consume --json` skips them.
_PLACE_FIELDS = frozenset({"topic", "offset", "timestamp_type"})
_RECORD_FIELDS = frozenset(
    {"key", "key_base64", "value", "value_base64", "headers", "partition", "timestamp"}
)


class BadRecord(ValueError):
    """A line that is no record. The text says why."""


class InputRecord(NamedTuple):
    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    partition: int | None = None
    timestamp: int | None = None


def bytes_field(name: str, value: bytes | None) -> dict[str, str | None]:
    if value is None:
        return {name: None}
    try:
        return {name: value.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(value).decode()}


def parse_record(line: bytes) -> InputRecord:
    try:
        fields = json.loads(line)
    except ValueError as error:
        raise BadRecord(f"no JSON: {error}") from error
    if not isinstance(fields, dict):
        raise BadRecord('no JSON object such as {"key": "a", "value": "b"}')
    unknown = fields.keys() - _RECORD_FIELDS - _PLACE_FIELDS
    if unknown:
        known = ", ".join(sorted(_RECORD_FIELDS))
        raise BadRecord(f"unknown field {min(unknown)!r}; known are {known}")
    return InputRecord(
        value=_bytes_of(fields, "value"),
        key=_bytes_of(fields, "key"),
        headers=_headers_of(fields.get("headers")),
        partition=_number_of(fields, "partition"),
        timestamp=_number_of(fields, "timestamp"),
    )


def _bytes_of(fields: dict[str, Any], name: str) -> bytes | None:
    encoded = fields.get(f"{name}_base64")
    if encoded is not None:
        try:
            return base64.b64decode(encoded, validate=True)
        except (binascii.Error, TypeError, ValueError) as error:
            raise BadRecord(f"{name}_base64 is not base64") from error
    value = fields.get(name)
    if value is None or isinstance(value, str):
        return None if value is None else value.encode()
    # A value that is JSON itself is written as such, so that nobody has to quote it twice.
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _headers_of(headers: object) -> tuple[tuple[str, bytes | None], ...]:
    if headers is None:
        return ()
    if isinstance(headers, dict):
        return tuple((name, _bytes_of(headers, name)) for name in headers)
    if not isinstance(headers, list):
        raise BadRecord("headers is neither a list nor an object")
    for header in headers:
        if not isinstance(header, dict) or not isinstance(header.get("key"), str):
            raise BadRecord('a header is no {"key": "a", "value": "b"}')
    return tuple((header["key"], _bytes_of(header, "value")) for header in headers)


def _number_of(fields: dict[str, Any], name: str) -> int | None:
    value = fields.get(name)
    if value is not None and (type(value) is not int or value < 0):
        raise BadRecord(f"{name} is no number")
    return value
