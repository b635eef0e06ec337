"""Batches that are run again and not written again: they are there already."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def evaluate(frame: DataFrame) -> None:
    """Without writing a row. Spark keeps the state of a stream while its rows are asked for: where
    no output asks, it has not gone on, and Spark ends the query."""
    frame.write.format("noop").mode("overwrite").save()
