"""How far the seeds are: how many are done, how fast it goes, and how long it will take."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from ottla.cli.early_exit import CLEAR_LINE
from ottla.cli.progress_lines import progress_lines
from ottla.cli.tables import duration_text

_BAR_CELLS = 20


class Progress(NamedTuple):
    done: int
    total: int
    failed: int
    elapsed_s: float

    def __str__(self) -> str:
        text = f"{self.done:,} of {self.total:,} seeds"
        if self.done:
            rate = self.done / max(self.elapsed_s, 1e-6)
            text += f", {rate:.1f}/s"
            if self.done < self.total:
                text += f", {duration_text(round((self.total - self.done) / rate * 1000))} left"
        if self.failed:
            text += f", {self.failed:,} failed"
        return text + (", shrinking" if self.failed and self.done == self.total else "")


@contextmanager
def shown(clock: Callable[[], float] = time.monotonic) -> Iterator[Callable[[Progress], None]]:
    """A bar on a terminal; else a line on standard error every few seconds."""
    if sys.stderr.isatty():
        with _bar() as update:
            yield update
    else:
        yield progress_lines(clock)


@contextmanager
def _bar() -> Iterator[Callable[[Progress], None]]:
    """In one line, which is gone at the end. Not rich's: that leaves a line behind on Ctrl-C."""

    def update(progress: Progress) -> None:
        full = _BAR_CELLS * progress.done // progress.total
        text = f"{'━' * full}{'╌' * (_BAR_CELLS - full)} {progress}"
        width = shutil.get_terminal_size().columns - 1
        print(f"{CLEAR_LINE}{text[:width]}", end="", file=sys.stderr, flush=True)

    try:
        yield update
    finally:
        print(CLEAR_LINE, end="", file=sys.stderr, flush=True)
