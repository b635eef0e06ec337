"""What keeps lake tables quick and small. Runs beside the queries that write to them: it changes no
row, and does not touch what tells which batches are in a table."""

from __future__ import annotations

import json
from dataclasses import dataclass

from deltalake import WriterProperties
from deltalake.exceptions import CommitFailedError

from ottla.pipeline.lake.schema import LakeError
from ottla.pipeline.lake.table import LakeTable

RETENTION_HOURS = 7 * 24
"""As Delta's own."""

_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class Compaction:
    files_removed: int
    files_added: int
    """Those removed are on disk until a vacuum, for readers that have begun."""
    bytes_removed: int
    bytes_added: int


def compact(table: LakeTable, *, target_bytes: int = 128 << 20) -> Compaction:
    """Small files of a partition become few of about this size. Appends go on meanwhile; where an
    upsert was quicker it is tried again."""
    problem: CommitFailedError | None = None
    for _ in range(_ATTEMPTS):
        try:
            found = table.delta().optimize.compact(
                target_size=target_bytes, writer_properties=WriterProperties(compression="ZSTD")
            )
        except CommitFailedError as error:
            problem = error
            continue
        return Compaction(
            found["numFilesRemoved"],
            found["numFilesAdded"],
            json.loads(found["filesRemoved"])["totalSize"],
            json.loads(found["filesAdded"])["totalSize"],
        )
    raise LakeError(
        f"table {table.name} could not be compacted in {_ATTEMPTS} attempts, since others changed "
        f"the same files each time; remedy: try when less is written; the last said: {problem}"
    )


def vacuum(
    table: LakeTable, *, retention_hours: int = RETENTION_HOURS, is_dry_run: bool = False
) -> list[str]:
    """The files that were deleted, or would be: those that the table has not named for so long,
    and those that no commit ever named, left by attempts that failed, once they are so old.

    Files of a batch that runs are named by no commit yet: retention has to be longer than any
    batch, and than any reader."""
    if retention_hours < 1:
        raise LakeError(
            f"table {table.name}: a retention of {retention_hours} hours could delete files that a "
            "batch is about to commit; remedy: one hour or more"
        )
    return table.delta().vacuum(
        retention_hours,
        dry_run=is_dry_run,
        # The limit of Delta is a week; ours is above.
        enforce_retention_duration=False,
        full=True,
    )
