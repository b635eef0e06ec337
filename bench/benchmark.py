"""What a benchmark is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from bench.broker import Broker

Measures = dict[str, float]


@dataclass(frozen=True, slots=True)
class Effort:
    """How much work a round does. `--quick` divides counts and times."""

    is_quick: bool

    def count(self, full: int) -> int:
        return full // 4 if self.is_quick else full

    def seconds(self, full: float) -> float:
        return full / 4 if self.is_quick else full


@dataclass(frozen=True, slots=True)
class Setting:
    """What a benchmark is told. `folder` lies on the disk on which both brokers have their data."""

    effort: Effort
    folder: Path


class Benchmark(Protocol):
    """Made once for each broker of a run, so that it can prepare data once and measure often."""

    name: str
    needs_java: bool
    has_cluster: bool
    """It starts a cluster of its own. All rounds of one kind of broker are done before those of the
    other begin: two clusters at once would take the processors and the memory from each other."""

    def __init__(self, broker: Broker, setting: Setting) -> None: ...

    def prepare(self) -> None:
        """Once, before the first round."""
        ...

    def measure(self) -> Measures:
        """Once a round. Keys are those of `targets.ROWS`; a key with `.cpu` at its end is the
        broker's CPU seconds for a million records (or requests), one with `.client_busy` the
        share of a core that the load generator took."""
        ...

    def clean_up(self) -> None:
        """Once, after the last round, or after a failure."""
        ...
