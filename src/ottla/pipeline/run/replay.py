"""Rebuilding the outputs of a job out of records from a point in time on.

A replay is a new generation of checkpoints. Its queries are other ones to Spark, to the ledger in
the topics and to the tables of the lake, and start at that time. The first commit of such a query
to a table replaces what the table held; until then readers see the old rows. Checkpoints that a
replay has made say so in a file: one that was interrupted goes on as a replay.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.pipeline.lake.lake import LakeCommit

_FILE = "replay.json"


@dataclass(frozen=True, slots=True)
class Replay:
    from_ms: int


def checkpoints_of(folder: Path) -> Path:
    """Of a job's folder. Ends what a crash has left of the beginning of a replay."""
    current, new, old = (folder / f"checkpoints{ending}" for ending in ("", ".new", ".old"))
    if new.exists() and not current.exists():
        new.rename(current)
    for left in (new, old):
        shutil.rmtree(left, ignore_errors=True)
    return current


def begin_replay(folder: Path, replay: Replay) -> None:
    """By whoever holds the job's lock. Afterwards there are the new checkpoints, or the old ones if
    it did not get so far."""
    current = checkpoints_of(folder)
    new, old = folder / "checkpoints.new", folder / "checkpoints.old"
    # The folder appears under its name when the file is in it.
    making = folder / "checkpoints.making"
    shutil.rmtree(making, ignore_errors=True)
    making.mkdir(parents=True)
    (making / _FILE).write_text(json.dumps({"from_ms": replay.from_ms}))
    making.rename(new)
    if current.exists():
        current.rename(old)
    checkpoints_of(folder)


def replay_of(checkpoints: Path) -> Replay | None:
    """None of checkpoints that began in the usual way."""
    try:
        return Replay(**json.loads((checkpoints / _FILE).read_text()))
    except FileNotFoundError:
        return None


class ReplayCommit:
    """A commit to the lake that replaces a table when it is the first one of its query there. Made
    for one run of one batch, as the LakeCommit in it."""

    def __init__(self, commit: LakeCommit, has_committed: Callable[[str], bool]) -> None:
        self._commit = commit
        self._has_committed = has_committed
        self._is_replacing = False

    @property
    def query_id(self) -> str:
        return self._commit.query_id

    @property
    def batch_id(self) -> int:
        return self._commit.batch_id

    @property
    def offsets(self) -> Mapping[str, Any]:
        return self._commit.offsets

    @property
    def is_replacing(self) -> bool:
        """Of the table that was begun last."""
        return self._is_replacing

    def begin(self, table: str) -> None:
        self._commit.begin(table)
        self._is_replacing = not self._has_committed(table)
