"""What is wrong with a partition."""

from __future__ import annotations

import pytest

from ottla.cli.health import problems_of


@pytest.mark.parametrize(
    ("leader", "replicas", "isr", "min_isr", "problems"),
    [
        (1, [1], [1], 1, []),
        (1, [1, 2, 3], [3, 1, 2], 2, []),
        (2, [1, 2, 3], [1, 2, 3], 2, ["not on preferred leader"]),
        (1, [1, 2, 3], [1, 2], 2, ["under-replicated"]),
        (1, [1, 2, 3], [1], 2, ["under-replicated", "under-min-isr"]),
        (None, [1, 2], [1], 1, ["offline", "under-replicated"]),
        (None, [1], [], 1, ["offline", "under-replicated", "under-min-isr"]),
        # One replica can't be two in sync: acks=all is refused, but no replica is missing.
        (1, [1], [1], 2, []),
    ],
)
def test_problems(
    leader: int | None, replicas: list[int], isr: list[int], min_isr: int, problems: list[str]
) -> None:
    assert problems_of(leader, replicas, isr, min_isr) == problems
