"""Where the time of Ottla's start goes: what it says itself, and what Python says of imports."""

from __future__ import annotations

import re
import resource
import subprocess
import sys
import time
from datetime import datetime
from typing import NamedTuple

from bench.broker import BenchError

_LINE = re.compile(r'time=(\S+) .*message="the start took: (.*)"')
_PART = re.compile(r"(?:, )?([^,]+?) ([0-9.]+) ms \(CPU ([0-9.]+)\)")
_IMPORT = re.compile(r"import time: +([0-9]+) \| +[0-9]+ \| ( *)(\S+)")
_IMPORTED = "import ottla.cli.main, ottla.cli.start, ottla.broker_process, uvloop"
_TIMES = 3
_PYTHON = "Python itself"


class Part(NamedTuple):
    name: str
    elapsed_ms: float
    cpu_ms: float


class Answered(NamedTuple):
    """The first answer of a broker that was just started, as its client saw it."""

    elapsed_s: float
    cpu_s: float
    at_s: float
    """By the machine's clock."""


def parts(output: str, answered: Answered) -> list[Part]:
    """All of the time until the answer. `output` is of a broker with `--log-level info`."""
    found = _LINE.search(output)
    if found is None:
        raise BenchError("the broker did not say what its start took")
    ready_at_s = datetime.fromisoformat(found[1]).timestamp()
    first, *said = [Part(name, float(ms), float(cpu)) for name, ms, cpu in _PART.findall(found[2])]
    python = _python_itself()
    told_cpu_ms = first.cpu_ms + sum(part.cpu_ms for part in said)
    answer = Part(
        "first request: connect, decode, answer",
        max(answered.at_s - ready_at_s, 0.0) * 1000,
        max(answered.cpu_s * 1000 - told_cpu_ms, 0.0),
    )
    # What is told by nobody is before the broker's first line: the process is made, then Python,
    # then the modules of the command.
    known_ms = sum(part.elapsed_ms for part in (python, *said, answer))
    command = Part(
        "command line",
        max(answered.elapsed_s * 1000 - known_ms, 0.0),
        max(first.cpu_ms - python.cpu_ms, 0.0),
    )
    return [python, command, *said, answer]


def _python_itself() -> Part:
    best = Part(_PYTHON, float("inf"), float("inf"))
    for _ in range(_TIMES):
        before, begin_s = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run([sys.executable, "-P", "-c", "pass"], check=True)
        elapsed_ms = (time.perf_counter() - begin_s) * 1000
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu_s = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
        best = min(best, Part(_PYTHON, elapsed_ms, cpu_s * 1000))
    return best


def imports() -> dict[str, float]:
    """Milliseconds by package, of the fastest of some runs: ours, and of Python's own those that
    ours import, each with all that it imports in turn."""
    command = [sys.executable, "-P", "-X", "importtime", "-c", _IMPORTED]
    runs = [
        import_times(subprocess.run(command, capture_output=True, text=True, check=True).stderr)
        for _ in range(_TIMES)
    ]
    best = min(runs, key=lambda times: sum(times.values()))
    return dict(sorted(best.items(), key=lambda item: -item[1]))


def import_times(report: str) -> dict[str, float]:
    """Of the report of `-X importtime`, in which a module follows those that it has imported,
    which are indented."""
    times: dict[str, float] = {}
    above: list[tuple[int, str]] = []
    for line in reversed(report.splitlines()):
        found = _IMPORT.fullmatch(line)
        if found is None:
            continue
        self_us, depth, name = int(found[1]), len(found[2]), found[3]
        while above and above[-1][0] >= depth:
            above.pop()
        parent = above[-1][1] if above else _PYTHON
        if name.startswith("ottla."):
            group = ".".join(name.split(".")[:2])
        elif parent.startswith("ottla.") or name == "uvloop":
            group = name.split(".")[0]
        else:
            group = parent
        above.append((depth, group))
        times[group] = times.get(group, 0.0) + self_us / 1000
    return times
