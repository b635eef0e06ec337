"""Which records are wanted, by their key."""

from __future__ import annotations

from ottla.cli.consume.key_filter import key_filter
from tests.unit.cli.consume.fakes import a_message


def test_without_keys_there_is_no_filter() -> None:
    assert key_filter([], None) is None


def test_a_key_or_an_expression_is_enough() -> None:
    is_wanted = key_filter(["user-7", "ü"], "^shop-[0-9]+$")
    assert is_wanted is not None

    keys = [b"user-7", "ü".encode(), b"shop-12", b"user-70", b"my-shop-1", b"", b"\xff", None]
    found = [is_wanted(a_message(key=key)) for key in keys]
    assert found == [True, True, True, False, False, False, False, False]
