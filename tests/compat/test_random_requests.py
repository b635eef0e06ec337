"""Random sequences of requests, sound and not, to Ottla and to Apache Kafka: the answers are alike,
field by field, but for what `comparable.py` lists.

Each run makes up sequences of its own. To run one again, by the seed that a report names:

    OTTLA_SEQUENCE="log 123456-7" ./test tests/compat/test_random_requests.py
"""

from __future__ import annotations

import os
import random

import pytest

from tests.support.counts import count
from tests.support.random_requests.sequence import KINDS, Difference, run
from tests.support.side_by_side import Both

SEQUENCE_COUNT = count(full=200, quick=40)
DIFFERENT_COUNT_MAX = 2
"""With `--full` 99 of 100 are alike. Among fewer a rare difference weighs more: what a new seed
finds is reported, and is not yet a failure of whoever happened to run it."""

FOUND_BEFORE = (
    "log 900-0",
    "log 900-20",
    "log 160333-20",
    "log 710604-185",
    "topics 900-1",
    "topics 900-11",
    "topics 900-16",
    "topics 900-31",
    "topics 900-46",
    "consumers 901-5",
    "transactions 900-4",
)
"""Sequences that were not alike once."""


@pytest.mark.timeout(count(full=1200, quick=300))
def test_sequences_are_alike(both: Both, capsys: pytest.CaptureFixture[str]) -> None:
    different = [found for seed in _seeds() if (found := run(both, seed)) is not None]
    if not different:
        return
    report = "\n\n".join([_summary(different), *map(str, different)])
    assert len(different) <= DIFFERENT_COUNT_MAX, report
    with capsys.disabled():
        print(f"\n{report}")


@pytest.mark.parametrize("seed", FOUND_BEFORE)
def test_a_sequence_that_was_not_alike(both: Both, seed: str) -> None:
    found = run(both, seed)
    assert found is None, str(found)


def _seeds() -> list[str]:
    if "OTTLA_SEQUENCE" in os.environ:
        return [os.environ["OTTLA_SEQUENCE"]]
    base = random.SystemRandom().randrange(10**6)
    kinds = list(KINDS)
    return [f"{kinds[number % len(kinds)]} {base}-{number}" for number in range(SEQUENCE_COUNT)]


def _summary(different: list[Difference]) -> str:
    return (
        f"{len(different)} of {SEQUENCE_COUNT} sequences are not alike. Again:\n"
        f'OTTLA_SEQUENCE="{different[0].seed}" ./test {__name__.replace(".", "/")}.py'
    )
