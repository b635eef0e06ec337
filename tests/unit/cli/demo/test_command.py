"""`ottla demo`: how it ends. tests/compat runs the whole of it."""

from __future__ import annotations

import signal
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.cli.demo import command
from ottla.cli.demo.command import _missing, _terminated_as_interrupted, _verdict
from ottla.cli.demo.stream import Counts
from ottla.cli.errors import Failure


def verdict_of(counts: Counts) -> int:
    stream: Any = SimpleNamespace(counts=counts)
    return _verdict(stream)


def test_all_events_came_back(capsys: pytest.CaptureFixture[str]) -> None:
    counts = Counts(sent=5, acknowledged=5, read=5)
    counts.latencies_ms.append(1.5)

    assert verdict_of(counts) == 0
    assert capsys.readouterr().out == (
        "5 events written, 5 read back, half of them within 1.50 ms\n"
    )


def test_an_event_that_did_not_come_back_is_a_failure() -> None:
    with pytest.raises(Failure, match="2 of 5 events did not come back"):
        verdict_of(Counts(sent=5, acknowledged=4, read=3))


def test_what_failed_is_said() -> None:
    with pytest.raises(Failure, match="disk"):
        verdict_of(Counts(failed="the disk is full"))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_in_order(number: signal.Signals) -> None:
    before = signal.getsignal(number)

    with pytest.raises(KeyboardInterrupt), _terminated_as_interrupted():
        signal.raise_signal(number)

    assert signal.getsignal(number) == before


def test_without_the_extra_it_is_the_small_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def need_extra() -> None:
        raise Failure("pipelines need Spark: pip install 'ottla[pipeline]'")

    assert _missing() is None
    monkeypatch.setattr(command, "need_extra", need_extra)

    assert _missing() == "pipelines need Spark: pip install 'ottla[pipeline]'"
