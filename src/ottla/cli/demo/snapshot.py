"""What the demo looks like at one moment, for the screen and for the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from ottla.cli.demo.history import Sample
from ottla.cli.demo.read_back import ReadRecord
from ottla.cli.pipeline.results.activity_results import Results, Traffic

_MINUTE = timedelta(minutes=1)
_LATE = timedelta(minutes=3)
"""How late an event may come and still count, by the pipeline's default."""


@dataclass(frozen=True, slots=True)
class SparkSnapshot:
    stages: Sequence[tuple[str, float | None]]
    """Of its start, in order, with the seconds after which each was passed; None if it was not."""
    elapsed_s: float
    """Since it was started."""
    read: int
    queries: Mapping[str, Mapping[str, Any]]
    """The last batch of each."""
    results: Results

    def minutes(self) -> tuple[list[tuple[str, Traffic]], int]:
        """The newest minutes, and how many of them are final. The others may still grow: their
        time is not over, or what comes late would still be counted."""
        found = self.results.in_order()
        if not found:
            return [], 0
        # The first watermark comes with the second batch: until then it is what it will be.
        end = datetime.fromisoformat(found[-1][0]) - _LATE
        if (watermark := self.queries.get("traffic", {}).get("watermark")) is not None:
            end = max(end, datetime.fromisoformat(watermark))
        final = (datetime.fromisoformat(start) + _MINUTE <= end for start, _ in found)
        return found, sum(final)


@dataclass(frozen=True, slots=True)
class Snapshot:
    version: str
    bootstrap: str
    ready_s: float
    """What the broker's start took."""
    elapsed_s: float
    written: int
    read_back: int
    rates: tuple[float, float]
    """Written, and read by Spark, a second."""
    samples: Sequence[Sample]
    """From the start."""
    recent: Sequence[Sample]
    """One a second."""
    records: Sequence[ReadRecord]
    """The last ones."""
    spark: SparkSnapshot | None
    """None where the demo is without."""
    page_url: str
    """Where the page is live."""
    commands: Sequence[str]
    """To try in another terminal."""

    @property
    def lag(self) -> int:
        return 0 if self.spark is None else max(0, self.written - self.spark.read)
