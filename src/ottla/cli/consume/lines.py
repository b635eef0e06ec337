"""A record as a line: text for people and pipes, JSON for programs."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Callable
from typing import NamedTuple

from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME, Message

from ottla.cli.consume.fields import bytes_of, headers_of
from ottla.cli.consume.pretty_json import NO_COLOURS, TERMINAL_COLOURS, Colours, pretty_json
from ottla.cli.json_records import bytes_field
from ottla.cli.options import iso_of

Formatter = Callable[[Message], bytes]

_TIMESTAMP_TYPES = {TIMESTAMP_CREATE_TIME: "create", TIMESTAMP_LOG_APPEND_TIME: "log-append"}
# A terminal obeys control characters, and a record may come from anybody.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def json_line(message: Message) -> bytes:
    timestamp_type, timestamp = message.timestamp()
    fields = {
        "topic": message.topic(),
        "partition": message.partition(),
        "offset": message.offset(),
        "timestamp": timestamp if timestamp_type in _TIMESTAMP_TYPES else None,
        "timestamp_type": _TIMESTAMP_TYPES.get(timestamp_type),
        **bytes_field("key", bytes_of(message.key())),
        **bytes_field("value", bytes_of(message.value())),
        "headers": [
            {"key": key, **bytes_field("value", bytes_of(value))}
            for key, value in headers_of(message)
        ],
    }
    return json.dumps(fields, ensure_ascii=False).encode() + b"\n"


class TextLines(NamedTuple):
    """What stands before the value, with a tab after each; and how the value looks."""

    has_key: bool = False
    has_headers: bool = False
    has_meta: bool = False
    has_topic: bool = False
    """In the meta: where several topics are read."""
    is_terminal: bool = False
    is_pretty: bool = False
    colours: Colours = NO_COLOURS

    def line(self, message: Message) -> bytes:
        parts = self._before_value(message)
        value = _or_null(message.value())
        if self.is_pretty:
            width = shutil.get_terminal_size().columns - len(b"\t".join([*parts, b""]).expandtabs())
            pretty = pretty_json(value, width, self.colours)
            if pretty is not None:
                before = b"".join(self._shown(part) + b"\t" for part in parts)
                return before + pretty.encode() + b"\n"
        return self._shown(b"\t".join([*parts, value])) + b"\n"

    def _before_value(self, message: Message) -> list[bytes]:
        parts = []
        if self.has_meta:
            _, timestamp = message.timestamp()
            topic = f"{message.topic()}:" if self.has_topic else ""
            where = f"{topic}{message.partition()}:{message.offset()}"
            parts.append(f"{iso_of(timestamp)} {where}".encode())
        if self.has_headers:
            headers = headers_of(message)
            parts.append(b",".join(k.encode() + b"=" + _or_null(v) for k, v in headers))
        if self.has_key:
            parts.append(_or_null(message.key()))
        return parts

    def _shown(self, line: bytes) -> bytes:
        return printable(line) if self.is_terminal else line


def terminal_colours() -> Colours:
    """None in a pipe, nor where the user has said so (no-color.org)."""
    is_plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return TERMINAL_COLOURS if sys.stdout.isatty() and not is_plain else NO_COLOURS


def printable(line: bytes) -> bytes:
    text = line.decode(errors="backslashreplace")
    return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text).encode()


def _or_null(value: str | bytes | None) -> bytes:
    found = bytes_of(value)
    return b"null" if found is None else found
