"""`--format`: kcat's letters, so that a format string works in both tools.

What differs: an unknown letter is refused with a list of those that are known, and `\\x` takes two
hexadecimal digits where kcat takes as many as there are.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import click
from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Message

from ottla.cli.consume.fields import bytes_of, headers_of
from ottla.cli.consume.lines import Formatter

_TOKEN = re.compile(
    r"%(?P<letter>.?)|\\x(?P<hex>[0-9a-fA-F]{1,2})|\\(?P<escape>.)|(?P<text>[^%\\]+|\\)", re.DOTALL
)
_ESCAPES = {"n": b"\n", "r": b"\r", "t": b"\t"}


def _key_bytes(message: Message) -> bytes:
    return bytes_of(message.key()) or b""


def _value_bytes(message: Message) -> bytes:
    return bytes_of(message.value()) or b""


def _size(part: str | bytes | None) -> int:
    """-1 for null."""
    found = bytes_of(part)
    return -1 if found is None else len(found)


def _header_bytes(message: Message) -> bytes:
    pairs = []
    for name, value in headers_of(message):
        found = bytes_of(value)
        pairs.append(name.encode() + b"=" + (b"NULL" if found is None else found))
    return b",".join(pairs)


def _timestamp(message: Message) -> int:
    timestamp_type, timestamp = message.timestamp()
    return -1 if timestamp_type == TIMESTAMP_NOT_AVAILABLE else timestamp


_LETTERS: dict[str, Formatter] = {
    "t": lambda message: (message.topic() or "").encode(),
    "p": lambda message: b"%d" % (message.partition() or 0),
    "o": lambda message: b"%d" % (message.offset() or 0),
    "k": _key_bytes,
    "K": lambda message: b"%d" % _size(message.key()),
    "s": _value_bytes,
    "S": lambda message: b"%d" % _size(message.value()),
    "R": lambda message: _size(message.value()).to_bytes(4, "big", signed=True),
    "T": lambda message: b"%d" % _timestamp(message),
    "h": _header_bytes,
}


def formatter_of(format_string: str, printable: Callable[[bytes], bytes]) -> Formatter:
    """Raises BadParameter. What comes from a record goes through `printable`; what the format
    string says itself does not, so that it may have colours."""
    parts = [_part(token) for token in _TOKEN.finditer(format_string)]

    def format_message(message: Message) -> bytes:
        return b"".join(
            part if isinstance(part, bytes) else printable(part(message)) for part in parts
        )

    return format_message


def _part(token: re.Match[str]) -> bytes | Formatter:
    if token["text"] is not None:
        return token["text"].encode()
    if token["hex"] is not None:
        return bytes([int(token["hex"], 16)])
    if token["escape"] is not None:
        return _ESCAPES.get(token["escape"], token["escape"].encode())
    letter = token["letter"]
    if letter == "%":
        return b"%"
    if letter not in _LETTERS:
        known = " ".join(f"%{known}" for known in _LETTERS)
        raise click.BadParameter(
            f"%{letter} is not known; there are {known} and %% for a percent sign",
            param_hint="'--format'",
        )
    return _LETTERS[letter]
