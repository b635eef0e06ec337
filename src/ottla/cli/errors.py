"""How a command fails: one line that says what happened, where, and what to do."""

from __future__ import annotations

import enum
import sys


class ExitCode(enum.IntEnum):
    OK = 0
    FAILED = 1
    USAGE = 2
    INTERRUPTED = 130  # 128 + SIGINT, as shells report it
    BROKEN_PIPE = 141  # 128 + SIGPIPE: the reader went away (`| head`), which is its right


class Failure(Exception):
    """Ends the command. The text is for a person and stands on its own."""

    def __init__(self, message: str, exit_code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class ReaderGone(Exception):
    """Whoever read standard output has closed it."""


def warn(message: str) -> None:
    """For what a person should know; standard output stays clean for programs."""
    print(f"ottla: {message}", file=sys.stderr, flush=True)
