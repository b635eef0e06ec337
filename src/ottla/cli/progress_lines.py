"""How far a command is, where nobody watches it on a terminal: a line every few seconds."""

from __future__ import annotations

import sys
from collections.abc import Callable

_PERIOD_S = 5.0


def progress_lines(clock: Callable[[], float]) -> Callable[[object], None]:
    """Returns what prints progress on standard error, unless it has just done so."""
    shown_s = clock()

    def show(progress: object) -> None:
        nonlocal shown_s
        now_s = clock()
        if now_s - shown_s >= _PERIOD_S:
            shown_s = now_s
            print(progress, file=sys.stderr, flush=True)

    return show
