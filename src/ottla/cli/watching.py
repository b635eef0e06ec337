"""--watch: the same question again and again, until there is a count or a signal that ends it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from threading import Event
from typing import Any, TypeVar

import click

from ottla.cli.errors import ExitCode
from ottla.cli.interrupts import stoppable
from ottla.cli.options import iso_of

T = TypeVar("T")


def watch_options(what: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Adds --watch, --interval and --samples. `what` is shown while it goes on."""

    def with_options(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(_options(what)):
            command = option(command)
        return command

    return with_options


def _options(what: str) -> list[Callable[[Callable[..., Any]], Callable[..., Any]]]:
    return [
        click.option(
            "-w", "--watch", "is_watched", is_flag=True, help=f"Keep running, and show {what}."
        ),
        click.option(
            "--interval",
            "interval_s",
            type=click.FloatRange(0.1),
            default=2.0,
            show_default=True,
            metavar="SECONDS",
            help="With --watch: how often.",
        ),
        click.option("--samples", type=click.IntRange(1), help="With --watch: stop after so many."),
    ]


def watch(
    read: Callable[[], T],
    show: Callable[[Iterator[T]], None],
    interval_s: float,
    samples: int | None,
) -> int:
    """Has `show` show what is read until that was so `samples` times, or it is told to stop."""
    with stoppable() as stop:
        show(_samples(read, interval_s, samples, stop))
    return ExitCode.INTERRUPTED if stop.is_set() else ExitCode.OK


def _samples(
    read: Callable[[], T], interval_s: float, samples: int | None, stop: Event
) -> Iterator[T]:
    taken = 0
    while not stop.is_set():
        yield read()
        taken += 1
        if taken == samples:
            return
        stop.wait(interval_s)


def now_text() -> str:
    return iso_of(int(time.time() * 1000))
