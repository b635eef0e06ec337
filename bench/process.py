"""Processes of the benchmark: what they cost, and how they end."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
import time
from pathlib import Path
from types import TracebackType

_SETTLE_S_MAX = 6
_IDLE_SHARE = 0.1
_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


def tree(*pids: int) -> list[int]:
    """The processes and all that they started: a helper process of a broker counts as the
    broker."""
    found = [*pids]
    for parent in found:
        for children in Path(f"/proc/{parent}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                found += [int(child) for child in children.read_text().split()]
    return found


def cpu_s(*pids: int) -> float:
    """User and system time so far, of ended children too."""
    ticks = 0
    for process in tree(*pids):
        try:
            stat = Path(f"/proc/{process}/stat").read_text()
        except FileNotFoundError:
            continue  # A helper that has just ended is in its parent's children time.
        fields = stat.rpartition(")")[2].split()
        ticks += sum(int(field) for field in fields[11:15])
    return ticks / _TICKS_A_SECOND


def exact_cpu_s(pid: int) -> float:
    """The same in nanoseconds rather than ticks of ten milliseconds, of the threads that there are
    now and of no other process."""
    tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9


def pss_bytes(*pids: int) -> int:
    """Proportional set size: what the machine would win back if the processes went."""
    total = 0
    for process in tree(*pids):
        try:
            lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
        except (FileNotFoundError, ProcessLookupError):
            continue
        total += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    return total


def settle(*pids: int) -> None:
    """Waits, within reason, until the processes have no work of their own left, such as creating or
    deleting the files of many partitions."""
    for _ in range(_SETTLE_S_MAX):
        before_s = cpu_s(*pids)
        time.sleep(1)
        if cpu_s(*pids) - before_s < _IDLE_SHARE * len(pids):
            return


def is_alive(pid: int) -> bool:
    """False also for one that has ended and was not waited for."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def end(process: subprocess.Popen[bytes], patience_s: float = 20.0) -> None:
    """Asks, then insists. Does nothing when it is gone already."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(patience_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(patience_s)


class PeakMemory:
    """Watches processes while the `with` block runs; `bytes` is the highest PSS seen."""

    # Reading the roll-up walks the page tables of the process: not too often.
    _INTERVAL_S = 0.5

    def __init__(self, *pids: int) -> None:
        self.bytes = 0
        self._pids = pids
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="peak-memory")

    def _watch(self) -> None:
        while not self._done.wait(self._INTERVAL_S):
            self.bytes = max(self.bytes, pss_bytes(*self._pids))

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._done.set()
        self._thread.join()
