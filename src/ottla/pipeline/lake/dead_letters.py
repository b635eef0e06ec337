"""Records that could not be parsed: kept in one table of the lake, with the reason.

good, bad = dead_letters.split(parsed)
dead_letters.append(lake, bad, commit, query="logs")
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ottla.pipeline.lake.lake import Lake
    from ottla.pipeline.lake.table import Commit

TABLE = "dead_letters"
REASON = "reason"
"""The column of a parsed frame that says why a row was not parsed; null where it was."""

_COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value", REASON)
_NAME = re.compile(r"[\w.-]+")


def split(parsed: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Rows that were parsed, without the reason; and dead letters: what the record was, and the
    reason. Both read the frame: whoever parses at some cost persists it first."""
    good = parsed.where(f"{REASON} IS NULL").drop(REASON)
    return good, parsed.where(f"{REASON} IS NOT NULL").select(*_COLUMNS)


def append(lake: Lake, letters: DataFrame, commit: Commit, *, query: str) -> bool:
    """To the table, which all queries share; a replay replaces those of its own query. Partitioned
    by the day of the record, in the time zone of the session. Answers as LakeTable.append does."""
    from ottla.pipeline.lake.schema import LakeError

    if not _NAME.fullmatch(query):
        raise LakeError(f"{query!r} is no name of a query; remedy: use letters, digits, _ . and -")
    rows = letters.select(*_COLUMNS).selectExpr(
        "*", f"'{query}' AS query", "CAST(timestamp AS DATE) AS day"
    )
    return lake.table(TABLE).append(rows, commit, partition_by=["day"], own={"query": query})
