"""What a request asks for, each thing once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

T = TypeVar("T")


def distinct(asked: Iterable[T], name_of: Callable[[T], Hashable]) -> list[T]:
    """The first of those that have one name. A name takes a few bytes of a request, and what is
    answered for it thousands: 24 KB that described one topic again and again cost 170 MB."""
    first: dict[Hashable, T] = {}
    for one in asked:
        first.setdefault(name_of(one), one)
    return list(first.values())
