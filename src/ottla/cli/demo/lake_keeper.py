"""Keeps the lake of a demo small: pipelines keep all that they were given, and a demo would fill a
disk with it in some days. This module imports what the lake needs when it first tidies up."""

from __future__ import annotations

import threading
from datetime import date, timedelta
from typing import TYPE_CHECKING

from ottla.cli.errors import warn

if TYPE_CHECKING:
    from ottla.pipeline.lake.table import LakeTable

_EVERY_S = 600.0
DAYS_KEPT = 3
"""Of the site: an hour or so of the demo."""
_HOURS_KEPT = 1
"""Files that no table names any more, and what the tables' logs say of them."""
_LOG_KEPT = "delta.logRetentionDuration"


class LakeKeeper:
    """One thread, from `start` to `stop`. Owned by the demo."""

    def __init__(self, lake: str) -> None:
        self._lake = lake
        self._problems: list[str] = []
        """Of the last time. Told at the end: before, there is a screen that is not ours."""
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="demo-lake", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._is_stopping.set()
        self._thread.join()
        for problem in self._problems:
            warn(f"the demo's lake grew: {problem}")

    def _run(self) -> None:
        while not self._is_stopping.wait(_EVERY_S):
            self._problems = tidy(self._lake)


def tidy(root: str) -> list[str]:
    """Deletes rows of old days, makes one file of many, and removes what that left an hour ago.
    The pipeline goes on meanwhile; where it was quicker, the table is left for the next time. So
    is one with which something else is wrong, and that is told."""
    from deltalake.exceptions import DeltaError

    from ottla.pipeline.lake.lake import Lake
    from ottla.pipeline.lake.schema import LakeError

    problems = []
    lake = Lake(root)
    for name in lake.names():
        try:
            _tidy_table(lake.table(name))
        except (DeltaError, LakeError):
            continue
        except (OSError, LookupError, ValueError) as error:
            problems.append(f"could not tidy {name}: {type(error).__name__}: {error}")
    return problems


def _tidy_table(table: LakeTable) -> None:
    from ottla.pipeline.lake.maintenance import compact, vacuum

    delta = table.delta()
    if _LOG_KEPT not in delta.metadata().configuration:
        delta.alter.set_table_properties({_LOG_KEPT: f"interval {_HOURS_KEPT} hours"})
    days = sorted({date.fromisoformat(values["day"]) for values in delta.partitions()})
    if days and days[0] <= (gone := days[-1] - timedelta(days=DAYS_KEPT)):
        delta.delete(f"day <= '{gone}'")
    compact(table)
    vacuum(table, retention_hours=_HOURS_KEPT)
    delta.update_incremental()
    delta.create_checkpoint()
    delta.cleanup_metadata()
