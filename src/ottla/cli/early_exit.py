"""Signals in the first moments of a command, before anything that takes time is imported."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Ctrl-C, `kill`, and a terminal that is closed."""
CLEAR_LINE = "\r\x1b[K"
"""Of the ^C that a terminal shows."""
_STDERR = 2


def exit_at_once(exit_code: int) -> None:
    """From here on a signal ends the process with `exit_code`, and nothing is said."""

    def end(number: int, _: object) -> None:
        if number == signal.SIGINT and os.isatty(_STDERR):
            os.write(_STDERR, b"\n")  # behind the ^C
        os._exit(exit_code)

    handle_signals(end)
    # Whoever has put this process in its place may have held them back until now.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


def handle_signals(handler: Callable[..., object]) -> None:
    for number in SIGNALS:
        # Whoever started this process may want it to go on: nohup, or the `&` of a script.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)
