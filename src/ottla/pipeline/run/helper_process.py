"""Python processes that help a driver: each ends with its standard input, so with the driver,
however that one ends."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import TypeAlias

HelperProcess: TypeAlias = "subprocess.Popen[bytes]"

_STDERR = 2


def start_helper(
    module: str,
    arguments: Sequence[str],
    *,
    environment: Mapping[str, str] | None = None,
    pass_fds: Sequence[int] = (),
) -> HelperProcess:
    """`module` calls `leave_signals` first. `end_helper` it, or leave it to the end of this one."""
    # Ctrl-C of a terminal is the driver's: blocked until it is ignored.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=_STDERR,
            pass_fds=pass_fds,
            env=environment,
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def end_helper(process: HelperProcess) -> None:
    process.communicate()


def leave_signals() -> None:
    """To the driver."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
