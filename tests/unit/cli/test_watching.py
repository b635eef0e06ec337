from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event

import pytest

from ottla.cli import watching
from ottla.cli.errors import ExitCode
from ottla.cli.watching import now_text, watch


def test_it_ends_after_so_many_samples() -> None:
    samples = iter([1, 2, 3])
    shown: list[int] = []

    assert watch(lambda: next(samples), shown.extend, 0.001, 2) == ExitCode.OK
    assert shown == [1, 2]


def test_it_ends_when_it_is_told_to(monkeypatch: pytest.MonkeyPatch) -> None:
    stop = Event()

    @contextmanager
    def stoppable() -> Iterator[Event]:
        yield stop

    def show(samples: Iterator[int]) -> None:
        assert next(samples) == 7
        stop.set()
        assert list(samples) == []

    monkeypatch.setattr(watching, "stoppable", stoppable)
    assert watch(lambda: 7, show, 60.0, None) == ExitCode.INTERRUPTED


def test_now_is_in_utc() -> None:
    assert now_text().endswith("Z")
