"""Which records are wanted, by their key."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import click
from confluent_kafka import Message

from ottla.cli.consume.fields import bytes_of

Filter = Callable[[Message], bool]


def key_filter(keys: Sequence[str], key_regex: str | None) -> Filter | None:
    """A record is wanted when its key is one of `keys`, or has the expression in it. None: all
    are."""
    if not keys and key_regex is None:
        return None
    wanted = {key.encode() for key in keys}
    try:
        pattern = None if key_regex is None else re.compile(key_regex.encode())
    except re.error as error:
        raise click.BadParameter(
            f"{key_regex!r} is not a regular expression: {error}", param_hint="'--key-regex'"
        ) from error

    def is_wanted(message: Message) -> bool:
        key = bytes_of(message.key())
        if key is None:
            return False
        return key in wanted or (pattern is not None and pattern.search(key) is not None)

    return is_wanted
