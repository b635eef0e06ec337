"""The outcome of a run: a table for people, a page for the repository, JSON for programs."""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.table import Table

from bench import targets
from bench.benchmark import Measures
from bench.targets import CEILING_ROWS, COMPARISONS, ROWS, Comparison, Row

KAFKA = "Apache Kafka"
OTTLA = "Ottla"

_HEADINGS = (
    "work",
    "unit",
    KAFKA,
    OTTLA,
    "ratio",
    "spread",
    "target",
    "verdict",
    "CPU Kafka",
    "CPU Ottla",
)

_COMPARED_HEADINGS = (
    "work",
    "unit",
    "broker",
    "beside",
    "that",
    "ours",
    "ratio",
    "spread",
    "target",
    "verdict",
)

_CEILING_HEADINGS = ("ceiling of the machine", "unit", "value")
_START_HEADINGS = ("part of the start", "ms", "of these CPU")
_IMPORT_MS_MIN = 1.0

DATA = "results.json"
CEILING = "ceiling"

_COLOURS = {"reached": "green", "missed": "red"}

_NOTES = """\
- *ratio* is Ottla divided by Apache Kafka; *target* is the limit for it. Two equal brokers measured
  this way differ by up to 30 % on a small shared machine: where a ratio is that near to its target,
  the verdict says "within noise". *spread* is how far the rounds of a broker lay apart; where that
  is more than 30 %, it is taken for the noise. A single round gets no verdict.
- *CPU* is the broker's processor seconds for a million records (requests, transactions).
  Memory is PSS.
- Each number is the median over the rounds; in a round the brokers take turns. Apache Kafka has its
  stock heap (1 GB) and settings; both brokers had the same load before, and get the same client
  settings. The broker that is not measured stays up, idle.
- "Java consume" is Apache Kafka's consumer with the settings of ConsumerPerformance, by `assign()`
  in place of a group, for both brokers (`bench/java/AssignConsumer.java`).
- Transactions: librdkafka speaks version 1 (AddPartitionsToTxn before the records), our raw
  producers version 2 (KIP-890). "Until read" is from the begin of one until a reader of
  committed records has all of them; one transaction at a time.
- "CPU a produce" and "CPU a fetch": one request in flight in all. What is divided is the broker's
  CPU for a request among 1,000 partitions (or connections) by that among one. The fetch is one of
  an incremental session over all partitions, five of which have data.
- Rows of the pipeline are 100 B in 4 partitions, on `local[2]`, where the broker has to share
  the cores with Spark; Spark's connector is tuned by large fetches and batches. A micro-batch has
  one row a partition.
- "3 brokers": Ottla's meet in one SQLite file, as `ottla start --brokers 3` runs them; Apache
  Kafka's are KRaft nodes, each broker and controller. CPU and memory are of all three. Topics have
  3 partitions, 3 replicas and `min.insync.replicas=2`; clients have their defaults, and no linger
  where latency is measured. One cluster runs at a time, so the brokers do not take turns. After
  kill -9 the session has to end first: Apache Kafka's takes 9 s (`broker.session.timeout.ms`),
  Ottla's on one machine is over when its process is.
- The ceiling has no broker: our load generators ran against a responder that does no work, and
  Java's producer, "to nobody", against one that acknowledges at once and keeps nothing. No broker
  can make that client faster."""


def number(value: float | None) -> str:
    if value is None:
        return ""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


OF_A_RUN = ("commit", "date", "load_before")
"""What differs from run to run on one machine. Runs of which anything else differs do not go into
one table."""


@dataclass(slots=True)
class Results:
    """Filled round by round. `seen[broker][key]` has one value a round. With `take_earlier` it has
    the rows of earlier runs too; `run_of` says which, as an index into `runs`, whose last is the
    one under way."""

    machine: dict[str, str]
    rounds: int
    is_quick: bool
    seen: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    ceiling: Measures = field(default_factory=dict)
    runs: list[dict[str, str]] = field(init=False)
    run_of: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.runs = [{name: self.machine[name] for name in OF_A_RUN}]
        self.runs[0]["rounds"] = str(self.rounds)

    def add(self, broker: str, measures: Measures) -> None:
        for key, value in measures.items():
            self.seen.setdefault(broker, {}).setdefault(key, []).append(value)

    def difference(self, earlier: dict[str, Any]) -> str:
        """Of the machine, to that of earlier results; empty where there is none."""
        for name, value in self.machine.items():
            before = earlier["machine"].get(name)
            if name not in OF_A_RUN and before != value:
                return f"{name.replace('_', ' ')}: {before} then, {value} now"
        return ""

    def take_earlier(self, earlier: dict[str, Any], benchmarks: Collection[str]) -> None:
        """Of the JSON that `write` wrote: the rows that this run, of these benchmarks, did not
        measure."""
        measured = {key for keys in self.seen.values() for key in keys}
        if self.ceiling:
            measured.add(CEILING)
        self.runs = [*earlier["runs"], *self.runs]
        last, run_of = len(self.runs) - 1, earlier["run_of"]
        self.run_of = dict.fromkeys(measured, last)
        for broker, keys in earlier["brokers"].items():
            kept = {key: values for key, values in keys.items() if key not in measured}
            self.seen[broker] = {**self.seen.get(broker, {}), **kept}
            self.run_of |= {key: run_of.get(key, last - 1) for key in kept}
        if not self.ceiling:
            self.ceiling = earlier["ceiling"]
            self.run_of[CEILING] = run_of.get(CEILING, last - 1)
        for what, why in earlier["failures"].items():
            if what.partition(",")[0] not in benchmarks:
                self.failures.setdefault(what, why)
        self._forget_runs_without_rows()

    def _forget_runs_without_rows(self) -> None:
        used = sorted(set(self.run_of.values()))
        self.runs = [self.runs[number] for number in used]
        self.run_of = {key: used.index(number) for key, number in self.run_of.items()}

    def _run(self, key: str) -> tuple[str, ...]:
        """A cell, where there are several runs."""
        number = self.run_of.get(key, len(self.runs) - 1)
        return (str(number + 1),) if len(self.runs) > 1 else ()

    def _is_single(self, key: str) -> bool:
        return all(len(keys.get(key, ())) <= 1 for keys in self.seen.values())

    def median(self, broker: str, key: str) -> float | None:
        values = self.seen.get(broker, {}).get(key)
        return statistics.median(values) if values else None

    def spread(self, key: str) -> float:
        """How far the rounds of one broker lie apart, of the broker where it is worse."""
        rounds = [brokers[key] for brokers in self.seen.values() if key in brokers]
        return max(max(values) / min(values) - 1 if min(values) else 0.0 for values in rounds)

    def cells(self, row: Row) -> tuple[str, ...] | None:
        """None when nothing was measured for the row."""
        kafka, ottla = self.median(KAFKA, row.key), self.median(OTTLA, row.key)
        if kafka is None and ottla is None:
            return None
        ratio = verdict = ""
        if kafka is not None and ottla is not None:
            ratio = f"{targets.ratio(ottla, kafka):.2f}"
            verdict = self._verdict(row, ottla, kafka)
        cpu = [number(self.median(broker, f"{row.key}.cpu")) for broker in (KAFKA, OTTLA)]
        spread = "" if self._is_single(row.key) else f"{self.spread(row.key):.0%}"
        values = (number(kafka), number(ottla), ratio, spread, targets.target_text(row), verdict)
        return (row.title, row.unit, *values, *cpu, *self._run(row.key))

    def _verdict(self, row: Row, ottla: float, kafka: float) -> str:
        word = targets.verdict(row, ottla, kafka, self.spread(row.key))
        # One sample has no spread to judge by: a window of half a second, on a machine that others
        # used too, once gave 5x and the next one 1.4x.
        return "one round: none" if word and self._is_single(row.key) else word

    def all_cells(self) -> list[tuple[str, ...]]:
        return [cells for row in ROWS if (cells := self.cells(row)) is not None]

    def compared_cells(self) -> list[tuple[str, ...]]:
        found = [
            self._compared(comparison, broker)
            for comparison in COMPARISONS
            for broker in (KAFKA, OTTLA)
        ]
        return [cells for cells in found if cells is not None]

    def _compared(self, comparison: Comparison, broker: str) -> tuple[str, ...] | None:
        row, other_key = comparison.row, comparison.beside_key
        ours, other = self.median(broker, row.key), self.median(broker, other_key)
        if ours is None or other is None:
            return None
        spread = max(self.spread(row.key), self.spread(other_key))
        word = targets.verdict(row, ours, other, spread)
        return (
            *(row.title, row.unit, broker, comparison.beside, number(other), number(ours)),
            f"{targets.ratio(ours, other):.2f}",
            "" if self._is_single(row.key) else f"{spread:.0%}",
            targets.target_text(row),
            "one round: none" if word and self._is_single(row.key) else word,
            *self._run(row.key),
        )

    def ceiling_cells(self) -> list[tuple[str, ...]]:
        return [
            (row.title, row.unit, number(self.ceiling[row.key]), *self._run(CEILING))
            for row in CEILING_ROWS
            if row.key in self.ceiling
        ]

    def start_cells(self) -> list[tuple[str, ...]]:
        """Where the time of a start goes."""
        prefix, ours = "start_part: ", self.seen.get(OTTLA, {})
        names = [key for key in ours if key.startswith(prefix) and not key.endswith(".cpu")]
        if not names:
            return []
        elapsed_ms = [statistics.median(ours[name]) for name in names]
        cpu_ms = [statistics.median(ours[f"{name}.cpu"]) for name in names]
        titles = [*(name.removeprefix(prefix) for name in names), "all"]
        columns = ([*map(number, [*each, sum(each)])] for each in (elapsed_ms, cpu_ms))
        return [*zip(titles, *columns, strict=True)]

    def import_text(self) -> str:
        prefix, ours = "start_import: ", self.seen.get(OTTLA, {})
        found = {
            key.removeprefix(prefix): statistics.median(ours[key])
            for key in ours
            if key.startswith(prefix)
        }
        large = {name: ms for name, ms in found.items() if ms >= _IMPORT_MS_MIN}
        named = [f"{name} {number(large[name])}" for name in sorted(large, key=lambda n: -large[n])]
        others = sum(found.values()) - sum(large.values())
        return ", ".join([*named, f"all others {number(others)}"]) if found else ""

    def tables(self) -> list[Table]:
        table = Table(title="Ottla and Apache Kafka side by side")
        for index, heading in enumerate(self._headings(_HEADINGS)):
            table.add_column(heading, justify="left" if index in (0, 1, 6, 7) else "right")
        for cells in self.all_cells():
            colour = _COLOURS.get(cells[7], "")
            table.add_row(*cells, style=colour)
        compared = Table(title="Two ways of work with one kind of broker")
        for index, heading in enumerate(self._headings(_COMPARED_HEADINGS)):
            compared.add_column(heading, justify="right" if index in (4, 5, 6, 7) else "left")
        for cells in self.compared_cells():
            compared.add_row(*cells, style=_COLOURS.get(cells[9], ""))
        ceiling = Table(*self._headings(_CEILING_HEADINGS))
        for row in self.ceiling_cells():
            ceiling.add_row(*row)
        start = Table(*_START_HEADINGS)
        for row in self.start_cells():
            start.add_row(*row)
        return [each for each in (table, start, compared, ceiling) if each.row_count]

    def _headings(self, headings: tuple[str, ...]) -> tuple[str, ...]:
        return (*headings, "run") if len(self.runs) > 1 else headings

    @property
    def warning(self) -> str:
        """Empty when the machine was free."""
        cores = os.cpu_count() or 1
        loads = [float(run["load_before"]) for run in self.runs]
        busy = [f"{load:.1f}" for load in loads if load > cores / 4]
        if not busy:
            return ""
        return (
            f"The machine was busy before the run (load {', '.join(busy)} on {cores} cores): "
            "rates and latencies show who got the processor, not what the brokers can do."
        )

    def markdown(self) -> str:
        facts = [
            f"- {name.replace('_', ' ')}: {value}"
            for name, value in self.machine.items()
            if name not in OF_A_RUN
        ]
        facts += [f"- run {number}: {_run_text(run)}" for number, run in enumerate(self.runs, 1)]
        if self.is_quick:
            facts.append("- quick: little data, for a look only")
        parts = ["# Results of `./ottla bench`", "\n".join(facts)]
        if self.warning:
            parts.append(f"**{self.warning}**")
        parts.append(_markdown_table(self._headings(_HEADINGS), self.all_cells()))
        if start := self.start_cells():
            parts.append("Where the time of Ottla's start goes, on an empty data dir.")
            parts.append(_markdown_table(_START_HEADINGS, start))
            parts.append(
                "What the imports take, in ms by `-X importtime`, which is slower than none; what "
                f"Python's own modules import is counted with them: {self.import_text()}."
            )
        if compared := self.compared_cells():
            parts.append("Two ways of work with one kind of broker.")
            parts.append(_markdown_table(self._headings(_COMPARED_HEADINGS), compared))
        if self.ceiling:
            parts.append(_markdown_table(self._headings(_CEILING_HEADINGS), self.ceiling_cells()))
        if self.failures:
            lines = [f"- {what}: {why}" for what, why in self.failures.items()]
            parts.append("\n".join(["Not measured:", "", *lines]))
        return "\n\n".join([*parts, _NOTES]) + "\n"

    def write(self, folder: Path) -> list[Path]:
        page, data = folder / "RESULTS.md", folder / DATA
        page.write_text(self.markdown())
        content = {
            "machine": {k: v for k, v in self.machine.items() if k not in OF_A_RUN},
            "runs": self.runs,
            "run_of": self.run_of,
            "quick": self.is_quick,
            "brokers": self.seen,
            "ceiling": self.ceiling,
            "failures": self.failures,
        }
        data.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n")
        return [page, data]


def _run_text(run: dict[str, str]) -> str:
    rounds = f"{run['rounds']} round" + ("s" if run["rounds"] != "1" else "")
    return f"{run['date']}, commit {run['commit']}, {rounds}, load before {run['load_before']}"


def _markdown_table(headings: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [headings, ("---",) * len(headings), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
