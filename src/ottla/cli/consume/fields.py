"""The parts of a record as bytes, whatever confluent-kafka's types allow."""

from __future__ import annotations

from typing import Any

from confluent_kafka import Message


def headers_of(message: Message) -> list[tuple[str, str | bytes | None]]:
    headers: Any = message.headers()  # the stubs also allow what one may pass to a producer
    return headers or []


def bytes_of(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
