"""What all generators promise: the same bytes for the same seed anywhere, the rate kept, and some
records late or broken, but few."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from types import ModuleType

import pytest

from ottla.pipeline.generate import activity, logs, metrics
from ottla.pipeline.generate.event import LATE_MS_MAX, Event, limited

START_MS = 1_767_225_600_000  # 2026-01-01T00:00Z
MODULES = [activity, logs, metrics]

# What Python 3.11, 3.12 and 3.13 make. It changes when a generator does, and only then: results
# that were kept of an earlier version are then no answers to it.
DIGESTS = {
    "activity": "d547595a6bf10500",
    "logs": "915b93ea565b3a7a",
    "metrics": "d04356eb7d1004a9",
}


def name_of(module: ModuleType) -> str:
    return module.__name__.rpartition(".")[2]


pytestmark = pytest.mark.parametrize("module", MODULES, ids=name_of)


def digest_of(name: str) -> str:
    module = next(module for module in MODULES if name_of(module) == name)
    digest = hashlib.sha256()
    for event in limited(module.Generator(7, 10, START_MS), count=20_000):
        place = b"%d %d" % (event.event_time_ms, event.arrival_ms)
        digest.update(b"%s %s %s\n" % (place, event.key, event.value))
    return digest.hexdigest()[:16]


def test_one_seed_makes_the_same_bytes_in_every_process(module: ModuleType) -> None:
    code = (
        f"import runpy, sys; print(runpy.run_path({__file__!r})['digest_of']({name_of(module)!r}))"
    )
    digests = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "TZ": zone, "LC_ALL": "C"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for hash_seed, zone in (("1", "UTC"), ("2", "Asia/Tokyo"))
    ]
    assert digests == [DIGESTS[name_of(module)]] * 2


def test_another_seed_makes_others(module: ModuleType) -> None:
    def first(seed: int) -> list[bytes]:
        return [e.value for e in limited(module.Generator(seed, 10, START_MS), count=100)]

    assert first(1) == first(1)
    assert first(1) != first(2)


def test_iterating_again_starts_anew(module: ModuleType) -> None:
    generator = module.Generator(1, 10, START_MS)

    assert list(limited(generator, count=500)) == list(limited(generator, count=500))


def test_the_rate_is_kept_over_a_day(module: ModuleType) -> None:
    count = sum(1 for _ in day_of(module, rate=0.5))

    assert count == pytest.approx(0.5 * 86_400, rel=0.001)


def test_arrivals_do_not_fall_and_few_are_late_or_broken(module: ModuleType) -> None:
    events = list(day_of(module, rate=0.5))

    assert all(before.arrival_ms <= after.arrival_ms for before, after in pairwise(events))
    assert max(e.arrival_ms - e.event_time_ms for e in events) <= LATE_MS_MAX
    late = sum(e.is_late for e in events) / len(events)
    broken = sum(e.is_broken for e in events) / len(events)
    assert 0.015 < late < 0.025
    assert 0.007 < broken < 0.013


def test_the_order_of_arrival_does_not_change_the_answers(module: ModuleType) -> None:
    events = list(limited(module.Generator(1, 10, START_MS), count=5000))

    assert module.truth(events) == module.truth(reversed(events))


def test_it_needs_no_more_than_the_standard_library(module: ModuleType) -> None:
    code = (
        f"import sys, {module.__name__}; "
        "print([n for n in ('numpy', 'pyarrow', 'pyspark', 'pandas') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def day_of(module: ModuleType, rate: float) -> Iterator[Event[object]]:
    return limited(module.Generator(1, rate, START_MS), end_ms=START_MS + 86_400_000)
