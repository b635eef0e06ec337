"""`--format`. tests/compat compares it with kcat itself."""

from __future__ import annotations

import click
import pytest
from confluent_kafka import TIMESTAMP_NOT_AVAILABLE

from ottla.cli.consume.format_string import formatter_of
from ottla.cli.consume.lines import printable
from tests.unit.cli.consume.fakes import a_message

MESSAGE = a_message(b"val", key=b"k", headers=[("a", b"1"), ("b", None)], partition=3)
NULLS = a_message(None, timestamp=(TIMESTAMP_NOT_AVAILABLE, 0))


@pytest.mark.parametrize(
    ("format_string", "out", "of_nulls"),
    [
        ("%t %p %o %T", b"t 3 7 1700000000123", b"t 0 7 -1"),
        ("%k=%s", b"k=val", b"="),
        ("%K %S", b"1 3", b"-1 -1"),
        ("%R", b"\0\0\0\3", b"\xff\xff\xff\xff"),
        ("%h", b"a=1,b=NULL", b""),
        (r"\n\r\t\x41\x4\\\q%%", b"\n\r\tA\x04\\q%", b"\n\r\tA\x04\\q%"),
        ("ü\\", "ü\\".encode(), "ü\\".encode()),
    ],
)
def test_letters(format_string: str, out: bytes, of_nulls: bytes) -> None:
    formatter = formatter_of(format_string, bytes)

    assert formatter(MESSAGE) == out
    assert formatter(NULLS) == of_nulls


@pytest.mark.parametrize("format_string", ["%x", "abc%", "%S %"])
def test_an_unknown_letter_names_those_that_there_are(format_string: str) -> None:
    with pytest.raises(click.BadParameter, match=r"is not known; there are %t %p %o .* %%"):
        formatter_of(format_string, bytes)


def test_a_terminal_gets_the_colours_of_the_format_but_none_of_the_record() -> None:
    formatter = formatter_of(r"\x1b[1m%s", printable)

    assert formatter(a_message(b"\x1b[2J")) == b"\x1b[1m\\x1b[2J"
