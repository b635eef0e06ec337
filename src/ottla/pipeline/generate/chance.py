"""Choices that stay the same over Python versions, which those of `random` need not."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from random import Random
from typing import TypeVar

Item = TypeVar("Item")


def below(count: int, random: Random) -> int:
    """0 to count - 1, each as likely."""
    return int(random.random() * count)


def one_of(items: Sequence[Item], random: Random) -> Item:
    return items[below(len(items), random)]


class Weighted:
    """Chooses an index by weight."""

    def __init__(self, weights: Sequence[float]) -> None:
        self._sums = list(accumulate(weights))

    def choose(self, random: Random) -> int:
        index = bisect_right(self._sums, random.random() * self._sums[-1])
        # A product just below the sum may be rounded up to it.
        return min(index, len(self._sums) - 1)


def zipf(count: int) -> Weighted:
    """Index n is chosen 1/(n + 1) times as often as index 0, as pages and words are."""
    return Weighted([1 / rank for rank in range(1, count + 1)])
