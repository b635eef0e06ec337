"""The partition of each row: the one it names, else the one that its key says."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ottla.client.blocking_cluster import BlockingCluster
from ottla.pipeline.rows.columns import fixed
from ottla.pipeline.rows.encode import Column
from ottla.pipeline.sink.partitioner import Partitioner
from ottla.pipeline.source.given_options import OptionError


class RowError(ValueError):
    """A row that cannot be written."""


def partition_count(cluster: BlockingCluster, topic: str) -> int:
    found = cluster.topics([topic]).get(topic)
    if found is None:
        raise OptionError(
            "topic",
            f"there is no topic {topic} at {cluster.bootstrap_servers}",
            "create it, or name another",
        )
    return len(found.partitions)


class PartitionChoice:
    """Of one task, for as long as it runs. `count_of` is asked once for each topic; `first` is
    where rows without a key begin."""

    def __init__(self, count_of: Callable[[str], int], *, first: int) -> None:
        self._count_of = count_of
        self._first = first
        self._counts: dict[str, int] = {}
        self._partitioners: dict[str, Partitioner] = {}

    def of_topic(
        self, topic: str, keys: Column | None, named: Column | None, row_count: int
    ) -> npt.NDArray[np.int32]:
        """For rows of one topic. What they name must be there."""
        count = self._count(topic)
        if named is not None and named.null_count == 0:
            return self._checked(topic, count, named.to_numpy())
        found = self._partitioner(topic, count).partitions(_binary(keys), row_count)
        if named is None or named.null_count == row_count:
            return found
        return self._checked(topic, count, pc.coalesce(named, fixed(found)).to_numpy())

    def _count(self, topic: str) -> int:
        if topic not in self._counts:
            self._counts[topic] = self._count_of(topic)
        return self._counts[topic]

    def _partitioner(self, topic: str, count: int) -> Partitioner:
        return self._partitioners.setdefault(topic, Partitioner(count, first=self._first))

    def _checked(
        self, topic: str, count: int, partitions: npt.NDArray[np.int32]
    ) -> npt.NDArray[np.int32]:
        for strange in partitions[(partitions < 0) | (partitions >= count)][:1]:
            raise RowError(
                f"a row's partition is {strange}, but topic {topic} has {count}; "
                "leave column partition null to have it chosen by the key"
            )
        return partitions


def distinct_topics(topics: Column) -> list[str]:
    if topics.null_count:
        raise RowError("a row's topic is null; fill column topic, or set option topic for all rows")
    found: list[str] = pc.unique(topics).to_pylist()
    return found


def _binary(keys: Column | None) -> pa.BinaryArray | None:
    if keys is None:
        return None
    whole = keys.combine_chunks() if isinstance(keys, pa.ChunkedArray) else keys
    return whole if pa.types.is_binary(whole.type) else whole.cast(pa.binary())
