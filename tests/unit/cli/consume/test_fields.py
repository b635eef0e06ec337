"""The parts of a record as bytes."""

from __future__ import annotations

from ottla.cli.consume.fields import bytes_of, headers_of
from tests.unit.cli.consume.fakes import a_message


def test_text_and_null() -> None:
    assert [bytes_of(value) for value in ("ü", b"\xff", None)] == ["ü".encode(), b"\xff", None]


def test_headers_may_be_missing() -> None:
    assert headers_of(a_message()) == []
    assert headers_of(a_message(headers=[("a", None)])) == [("a", None)]
