"""A lake: a folder, or a place in an object store, of Delta tables that streaming queries write to,
each row exactly once. deltalake keeps the tables, no jar is needed; DuckDB, Polars, pandas and
Spark read them.

    lake = Lake("/data/lake")
    commit = LakeCommit(query_id, batch_id, offsets)
    lake.table("page_views").append(frame, commit, partition_by=["day"])
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ottla.pipeline.lake.schema import LakeError
from ottla.pipeline.lake.table import LakeTable

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


@dataclass(frozen=True, slots=True)
class Lake:
    """Where tables are: a folder, which all workers must see under this name, or a URI that
    deltalake takes (s3://, az://, gs://), with its storage options. Holds nothing open.

    Tested with folders only."""

    root: str | Path
    storage_options: Mapping[str, str] = field(default_factory=dict)

    def table(self, name: str) -> LakeTable:
        """It is made by its first commit."""
        if not _NAME.fullmatch(name):
            raise LakeError(
                f"{name!r} is no name of a table; remedy: use letters, digits, _ . and -"
            )
        return LakeTable(name, f"{self._base()}/{name}", self.storage_options)

    def names(self) -> list[str]:
        """Of the tables in a folder. Stores cannot be listed here."""
        base = self._base()
        if "://" in base:
            raise LakeError(f"tables of {base} cannot be listed; remedy: name them")
        return sorted(path.parent.name for path in Path(base).glob("*/_delta_log"))

    def _base(self) -> str:
        root = str(self.root).removeprefix("file://").rstrip("/")
        return root if "://" in root else str(Path(root).absolute())


@dataclass(frozen=True, slots=True)
class LakeCommit:
    """What makes a commit of a micro-batch known again: made anew for each run of a batch.

    The batch is known by (query_id, batch_id) in the table itself, as an application transaction
    of Delta, so a batch that is run again, after a crash, finds itself there. The id of a query is
    that of its checkpoint: a deleted checkpoint is another query."""

    query_id: str
    batch_id: int
    offsets: Mapping[str, Any] = field(default_factory=dict)
    """Of the input, JSON; goes into the history of the table. A batch that is run again has the
    same: another one under its number is refused."""
    is_replacing: bool = False
    """The first batch of a replay: what the table held before goes, in the same commit."""
    written: set[str] = field(default_factory=set, compare=False, repr=False)
    """Tables that this run of the batch has written to."""

    def begin(self, table: str) -> None:
        """A batch writes to a table once: a second time would look like the first one run again,
        and be left out."""
        if table in self.written:
            raise LakeError(
                f"batch {self.batch_id} writes to table {table} twice; remedy: one write of the "
                "union of both frames"
            )
        self.written.add(table)
