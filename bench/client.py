"""Runs the clients of a benchmark, each as a process that ends within its time."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Protocol

from bench import process
from bench.broker import BenchError
from bench.process import cpu_s
from tools.apache_kafka import java_command, tool_command

_ROOT = Path(__file__).resolve().parent.parent
_JAVA_SOURCES = Path(__file__).resolve().parent / "java"
_PATIENCE_S = 300.0

# kafka-producer-perf-test.sh and kafka-consumer-perf-test.sh of the distribution give this heap.
_STOCK_TOOL_HEAP_MB = 512

Report = dict[str, float]

_SENT_LINE = re.compile(r"^(\d+) records sent, ([\d.]+) records/sec", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Spent:
    """What a client saw, and what the broker spent meanwhile."""

    count: float
    elapsed_s: float
    broker_cpu_s: float

    @property
    def rate(self) -> float:
        return self.count / self.elapsed_s

    @property
    def cpu_us(self) -> float:
        """Of the broker, for one record or request; as a number also the seconds a million."""
        return self.broker_cpu_s / self.count * 1e6


def python_command(module: str, *arguments: object) -> list[str]:
    return [sys.executable, "-m", f"bench.clients.{module}", *map(str, arguments)]


def python_environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(_ROOT)}


def run(command: list[str], patience_s: float = _PATIENCE_S) -> str:
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=patience_s,
            env=python_environment(),
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise BenchError(f"{_short(command)} did not end within {patience_s:.0f} s") from error
    if done.returncode != 0:
        raise BenchError(f"{_short(command)} failed: {(done.stderr or done.stdout)[-500:].strip()}")
    return done.stdout


def _short(command: list[str]) -> str:
    return " ".join(part for part in command if "/" not in part and not part.startswith("-"))[:120]


def run_python(module: str, *arguments: object) -> Report:
    report: Report = json.loads(run(python_command(module, *arguments)))
    return report


class Running:
    """A client that runs beside others. It is gone when the `with` block is left."""

    def __init__(self, module: str, *arguments: object) -> None:
        self._command = python_command(module, *arguments)

    def __enter__(self) -> Running:
        self._process = subprocess.Popen(
            self._command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=python_environment(),
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        process.end(self._process)

    def finish(self) -> None:
        """Asks it to report now."""
        self._process.terminate()

    def report(self, patience_s: float) -> Report:
        try:
            output, errors = self._process.communicate(timeout=patience_s)
        except subprocess.TimeoutExpired as error:
            raise BenchError(f"{_short(self._command)} did not end in time") from error
        if self._process.returncode != 0:
            reason = errors.decode()[-500:].strip()
            raise BenchError(f"{_short(self._command)} failed: {reason}")
        report: Report = json.loads(output)
        return report


def spent(report: Report) -> Spent:
    return Spent(report["count"], report["elapsed_s"], report["broker_cpu_s"])


class Measured(Protocol):
    """A broker, a cluster, or what stands for one."""

    @property
    def address(self) -> str: ...

    @property
    def pids(self) -> tuple[int, ...]: ...


def java_produce(
    broker: Measured, topic: str, count: int, record_bytes: int, settings: dict[str, str]
) -> Spent:
    """ProducerPerformance, unthrottled."""
    pairs = {"bootstrap.servers": broker.address, **settings}
    options = ["--topic", topic, "--num-records", str(count), "--record-size", str(record_bytes)]
    options += ["--throughput", "-1", "--command-property"]
    options += [f"{name}={value}" for name, value in pairs.items()]
    before_s = cpu_s(*broker.pids)
    output = run(tool_command("producer-perf", *options, heap_mb=_STOCK_TOOL_HEAP_MB))
    broker_cpu_s = cpu_s(*broker.pids) - before_s
    lines = _SENT_LINE.findall(output)
    if not lines or int(lines[-1][0]) != count:
        raise BenchError(f"ProducerPerformance did not send {count} records: {output[-500:]}")
    return Spent(count, count / float(lines[-1][1]), broker_cpu_s)


def java_program(name: str, *arguments: str) -> list[str]:
    """One of our own in `java/`."""
    return java_command(
        str(_JAVA_SOURCES / f"{name}.java"),
        *arguments,
        options=[f"-Xmx{_STOCK_TOOL_HEAP_MB}M"],
    )


def java_consume(broker: Measured, topic: str, count: int) -> Spent:
    """AssignConsumer, our own program around Apache Kafka's consumer."""
    command = java_program("AssignConsumer", broker.address, topic, str(count), "120")
    before_s = cpu_s(*broker.pids)
    report = json.loads(run(command))
    return Spent(report["count"], report["elapsed_s"], cpu_s(*broker.pids) - before_s)
