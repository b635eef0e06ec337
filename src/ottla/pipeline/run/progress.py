"""How the queries of a job are doing, kept in files: whoever looks may be another process, while
the job runs or after. No Spark here: it is what Spark says about a batch, as JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

HISTORY = 30
"""So many of the last batches are remembered."""

State = Literal["starting", "running", "ended", "failed"]


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """One finished micro-batch."""

    query: str
    batch_id: int
    time: str
    """When it began, ISO 8601."""
    rows: int
    rows_per_s: float
    batch_ms: int
    watermark: str | None
    """ISO 8601. None for a query without one, and before the first event."""
    lag: int | None
    """Offsets that were there to be read and were not, when the batch was planned."""

    @classmethod
    def parse(cls, progress: Mapping[str, Any]) -> BatchProgress:
        """From the JSON of a StreamingQueryProgress."""
        watermark = progress.get("eventTime", {}).get("watermark")
        return cls(
            query=progress["name"],
            batch_id=progress["batchId"],
            time=progress["timestamp"],
            rows=progress["numInputRows"],
            rows_per_s=float(progress.get("processedRowsPerSecond", 0.0)),
            batch_ms=progress["batchDuration"],
            # Spark says 1970 where it has seen no event.
            watermark=None if watermark is None or watermark.startswith("1970-") else watermark,
            lag=_lag(progress["sources"]),
        )


def _lag(sources: list[Mapping[str, Any]]) -> int | None:
    # With it comes pyarrow, which whoever only looks may not have.
    from ottla.pipeline.source.offsets import Position

    found = None
    for source in sources:
        if isinstance(source["endOffset"], dict) and isinstance(source["latestOffset"], dict):
            read = Position.from_json(source["endOffset"]).offsets
            there = Position.from_json(source["latestOffset"]).offsets
            behind = (max(0, there[where] - read.get(where, 0)) for where in there)
            found = sum(behind) + (found or 0)
    return found


@dataclass(slots=True)
class QueryProgress:
    """One query over time. Owned by a run, which writes it down after every batch."""

    job: str
    query: str
    group: str
    state: State = "starting"
    error: str | None = None
    batches: int = 0
    """Of this run, as the next."""
    rows: int = 0
    busy_ms: int = 0
    """What its batches took together."""
    last: BatchProgress | None = None
    """May be of an earlier run."""
    rows_per_s: list[float] = field(default_factory=list)
    batch_ms: list[int] = field(default_factory=list)
    lag: list[int] = field(default_factory=list)

    def add(self, batch: BatchProgress) -> None:
        self.batches += 1
        self.rows += batch.rows
        self.busy_ms += batch.batch_ms
        self.last = batch
        for history, value in (
            (self.rows_per_s, batch.rows_per_s),
            (self.batch_ms, batch.batch_ms),
            (self.lag, batch.lag),
        ):
            if value is not None:
                history.append(value)  # type: ignore[arg-type]
                del history[:-HISTORY]

    @property
    def mean_rows_per_s(self) -> float:
        """Over all batches of this run."""
        return self.rows * 1000 / self.busy_ms if self.busy_ms else 0.0

    @classmethod
    def parse(cls, found: dict[str, Any]) -> QueryProgress:
        last = found.pop("last")
        return cls(**found, last=None if last is None else BatchProgress(**last))


class ProgressFolder:
    """One file a query. A file is replaced as a whole: a reader never sees half of one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "progress"

    def write(self, progress: QueryProgress) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / f"{progress.query}.json"
        other = path.with_suffix(".new")
        other.write_text(json.dumps(asdict(progress), indent=1))
        os.replace(other, path)

    def read(self, query: str) -> QueryProgress | None:
        """None where it has never run, and where the file is not whole, or of another version: it
        is there to be shown, no reason not to start."""
        try:
            return QueryProgress.parse(json.loads((self._folder / f"{query}.json").read_text()))
        except (FileNotFoundError, ValueError, TypeError, KeyError):
            return None

    def queries(self) -> list[str]:
        """That have run."""
        return sorted(path.stem for path in self._folder.glob("*.json"))
