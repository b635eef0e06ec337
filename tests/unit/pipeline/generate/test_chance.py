"""Choices by chance: what comes how often."""

from __future__ import annotations

from collections import Counter
from random import Random

from ottla.pipeline.generate.chance import Weighted, below, one_of, zipf


class Sure(Random):
    """Draws one number always."""

    def __init__(self, drawn: float) -> None:
        super().__init__(0)
        self._drawn = drawn

    def random(self) -> float:
        return self._drawn


NEARLY_ONE = 1 - 2**-53


def test_below_has_each_number_and_no_other() -> None:
    random = Random("below")
    assert {below(3, random) for _ in range(100)} == {0, 1, 2}
    assert (below(3, Sure(0.0)), below(3, Sure(NEARLY_ONE))) == (0, 2)


def test_one_of_has_each_item() -> None:
    random = Random("one of")
    assert {one_of("abc", random) for _ in range(100)} == {"a", "b", "c"}


def test_weights_part_the_chances() -> None:
    weighted = Weighted([1, 0, 2, 1])

    assert [weighted.choose(Sure(drawn)) for drawn in (0.0, 0.24, 0.25, 0.74, 0.75)] == [
        *(0, 0, 2, 2, 3)
    ]


def test_the_last_one_is_chosen_where_rounding_passes_it() -> None:
    for count in range(1, 200):
        assert zipf(count).choose(Sure(NEARLY_ONE)) == count - 1


def test_zipf_falls_with_the_rank() -> None:
    random, chooser = Random("zipf"), zipf(50)
    counts = Counter(chooser.choose(random) for _ in range(20_000))

    # 1/1 : 1/2 : 1/4, within three standard deviations.
    assert 0.45 < counts[1] / counts[0] < 0.55
    assert 0.22 < counts[3] / counts[0] < 0.28
