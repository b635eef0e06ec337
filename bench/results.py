"""The outcome of a run: a table for people, a page for the repository, JSON for programs."""

from __future__ import annotations

import json
import os
import statistics
from dataclasses import dataclass, field
from pathlib import Path

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
- The ceiling has no broker: our load generators ran against a responder that does no work, and
  Java's producer, "to nobody", against one that acknowledges at once and keeps nothing. No broker
  can make that client faster."""


def number(value: float | None) -> str:
    if value is None:
        return ""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


@dataclass(slots=True)
class Results:
    """Filled round by round. `seen[broker][key]` has one value a round."""

    machine: dict[str, str]
    rounds: int
    is_quick: bool
    seen: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    ceiling: Measures = field(default_factory=dict)

    def add(self, broker: str, measures: Measures) -> None:
        for key, value in measures.items():
            self.seen.setdefault(broker, {}).setdefault(key, []).append(value)

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
        spread = f"{self.spread(row.key):.0%}" if self.rounds > 1 else ""
        values = (number(kafka), number(ottla), ratio, spread, targets.target_text(row), verdict)
        return (row.title, row.unit, *values, *cpu)

    def _verdict(self, row: Row, ottla: float, kafka: float) -> str:
        word = targets.verdict(row, ottla, kafka, self.spread(row.key))
        # One sample has no spread to judge by: a window of half a second, on a machine that others
        # used too, once gave 5x and the next one 1.4x.
        return "one round: none" if word and self.rounds == 1 else word

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
            f"{spread:.0%}" if self.rounds > 1 else "",
            targets.target_text(row),
            "one round: none" if word and self.rounds == 1 else word,
        )

    def ceiling_cells(self) -> list[tuple[str, ...]]:
        return [
            (row.title, row.unit, number(self.ceiling[row.key]))
            for row in CEILING_ROWS
            if row.key in self.ceiling
        ]

    def tables(self) -> list[Table]:
        table = Table(title="Ottla and Apache Kafka side by side")
        for index, heading in enumerate(_HEADINGS):
            table.add_column(heading, justify="left" if index in (0, 1, 6, 7) else "right")
        for cells in self.all_cells():
            colour = _COLOURS.get(cells[7], "")
            table.add_row(*cells, style=colour)
        compared = Table(title="The pipeline: two ways on one broker")
        for index, heading in enumerate(_COMPARED_HEADINGS):
            compared.add_column(heading, justify="right" if index in (4, 5, 6, 7) else "left")
        for cells in self.compared_cells():
            compared.add_row(*cells, style=_COLOURS.get(cells[9], ""))
        ceiling = Table("ceiling of the machine", "unit", "value")
        for row in self.ceiling_cells():
            ceiling.add_row(*row)
        return [each for each in (table, compared, ceiling) if each.row_count]

    @property
    def warning(self) -> str:
        """Empty when the machine was free."""
        load, cores = float(self.machine["load_before"]), os.cpu_count() or 1
        if load <= cores / 4:
            return ""
        return (
            f"The machine was busy before the run (load {load:.1f} on {cores} cores): "
            "rates and latencies show who got the processor, not what the brokers can do."
        )

    def markdown(self) -> str:
        how = f"{self.rounds} round" + ("s" if self.rounds > 1 else "")
        if self.is_quick:
            how += ", quick: little data, for a look only"
        facts = [f"- {name.replace('_', ' ')}: {value}" for name, value in self.machine.items()]
        parts = ["# Results of `./ottla bench`", "\n".join([*facts, f"- {how}"])]
        if self.warning:
            parts.append(f"**{self.warning}**")
        parts.append(_markdown_table(_HEADINGS, self.all_cells()))
        if compared := self.compared_cells():
            parts.append("The pipeline: two ways of work on one broker.")
            parts.append(_markdown_table(_COMPARED_HEADINGS, compared))
        if self.ceiling:
            heading = ("ceiling of the machine", "unit", "value")
            parts.append(_markdown_table(heading, self.ceiling_cells()))
        if self.failures:
            lines = [f"- {what}: {why}" for what, why in self.failures.items()]
            parts.append("\n".join(["Not measured:", "", *lines]))
        return "\n\n".join([*parts, _NOTES]) + "\n"

    def write(self, folder: Path) -> list[Path]:
        page, data = folder / "RESULTS.md", folder / "results.json"
        page.write_text(self.markdown())
        content = {
            "machine": self.machine,
            "rounds": self.rounds,
            "quick": self.is_quick,
            "brokers": self.seen,
            "ceiling": self.ceiling,
            "failures": self.failures,
        }
        data.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n")
        return [page, data]


def _markdown_table(headings: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [headings, ("---",) * len(headings), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
