from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from ottla.kernel.wakefulness import AWAKE_NS, Wakefulness, processor_count


class Loop:
    """Only what is due at once."""

    def __init__(self) -> None:
        self.due: list[Callable[[], object]] = []

    def call_soon(self, callback: Callable[..., object], *args: object) -> None:
        self.due.append(lambda: callback(*args))

    def turn(self) -> None:
        due, self.due = self.due, []
        for callback in due:
            callback()


class Times:
    """Requests of a client, and what the loop does."""

    def __init__(self, *, is_allowed: bool = True) -> None:
        self.now_ns = 0
        self.loop = Loop()
        self.wakefulness = Wakefulness(is_allowed=is_allowed, now_ns=lambda: self.now_ns)

    def request(self, *, after_ns: int, taking_ns: int = 7_000) -> None:
        self.now_ns += after_ns
        received_ns = self.now_ns
        self.now_ns += taking_ns
        self.wakefulness.note_request(received_ns, cast(asyncio.AbstractEventLoop, self.loop))

    def is_awake(self, *, after_ns: int) -> bool:
        self.now_ns += after_ns
        self.loop.turn()
        return bool(self.loop.due)


@pytest.fixture
def times() -> Times:
    return Times()


def test_whoever_sends_now_and_then_is_slept_for(times: Times) -> None:
    for _ in range(3):
        times.request(after_ns=AWAKE_NS)
        assert not times.loop.due


def test_requests_upon_each_other_keep_it_awake_for_a_moment(times: Times) -> None:
    times.request(after_ns=AWAKE_NS)
    times.request(after_ns=AWAKE_NS - 1)
    assert times.is_awake(after_ns=10_000)
    times.request(after_ns=10_000)
    assert len(times.loop.due) == 1, "once is enough"
    assert times.is_awake(after_ns=AWAKE_NS - 1)
    assert not times.is_awake(after_ns=1)


def test_a_request_that_took_long_is_no_pause(times: Times) -> None:
    times.request(after_ns=AWAKE_NS)
    times.request(after_ns=1, taking_ns=10 * AWAKE_NS)
    assert times.is_awake(after_ns=1)


def test_it_begins_again_after_a_pause(times: Times) -> None:
    times.request(after_ns=AWAKE_NS)
    times.request(after_ns=1)
    assert not times.is_awake(after_ns=AWAKE_NS)
    times.request(after_ns=0)
    assert not times.loop.due
    times.request(after_ns=1)
    assert times.loop.due


def test_with_one_processor_it_sleeps() -> None:
    times = Times(is_allowed=False)
    times.request(after_ns=AWAKE_NS)
    times.request(after_ns=1)
    assert not times.loop.due


@pytest.mark.parametrize(
    ("text", "count"), [("50000 100000\n", 0.5), ("max 100000\n", None), ("", None), (None, None)]
)
def test_a_share_of_the_processors(tmp_path: Path, text: str | None, count: float | None) -> None:
    quota = tmp_path / "cpu.max"
    if text is not None:
        quota.write_text(text)
    found = processor_count(str(quota))
    assert found == count if count is not None else found >= 1
