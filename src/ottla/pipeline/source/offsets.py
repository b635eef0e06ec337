"""Which offsets to read: of which partitions, from where to where, and in how many pieces."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ottla.client.blocking_cluster import EARLIEST, LATEST, BlockingCluster, Topic
from ottla.kernel.ids import TopicId, TopicPartition, topic_id_from_text, topic_id_text
from ottla.pipeline.source.given_options import OptionError
from ottla.pipeline.source.read_options import Boundary, Everywhere, Offsets, ReadOptions

_INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
"""What a pattern does not mean, even where it matches."""

_TOPIC_IDS = "@topicIds"
_BEGUN = "@begun"
"""Beside the topics in the JSON of a position, and no name that a topic can have."""


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """What one task reads: from `start` up to, and without, `end`."""

    topic: str
    topic_id: TopicId
    """The same name with another id is another topic, whose offsets mean something else."""
    partition: int
    start: int
    end: int

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def size(self) -> int:
        """Offsets, not records: compaction and transactions leave gaps."""
        return max(0, self.end - self.start)


@dataclass(frozen=True, slots=True)
class Position:
    """How far a stream is. Spark keeps it in its checkpoint, as the JSON of Spark's connector with
    the topics' ids beside it: {"clicks": {"0": 23}, "@topicIds": {"clicks": "..."}}."""

    offsets: Mapping[TopicPartition, int]
    topic_ids: Mapping[str, TopicId]
    begun: Mapping[TopicPartition, int] | None = None
    """Where the batch that ends here began, if it is the first of a query: of that one Spark writes
    down the end only, and after a crash asks anew where to begin. The latest offsets are others
    by then, and what lies between would not be read."""

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = _by_topic(self.offsets)
        found[_TOPIC_IDS] = {
            topic: topic_id_text(self.topic_ids[topic]) for topic in sorted(self.topic_ids)
        }
        if self.begun is not None:
            found[_BEGUN] = _by_topic(self.begun)
        return found

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Position:
        topics = {name: value for name, value in found.items() if name not in (_TOPIC_IDS, _BEGUN)}
        ids = found.get(_TOPIC_IDS, {})
        return cls(
            _by_partition(topics),
            {topic: topic_id_from_text(ids[topic]) for topic in ids},
            _by_partition(found[_BEGUN]) if _BEGUN in found else None,
        )

    def is_in(self, where: TopicPartition, topic_id: TopicId | None) -> bool:
        """Whether it has an offset in this partition, of the topic with this id."""
        return where in self.offsets and self.topic_ids.get(where.topic) == topic_id


def _by_topic(offsets: Mapping[TopicPartition, int]) -> dict[str, Any]:
    found: dict[str, dict[str, int]] = {}
    for where in sorted(offsets):
        found.setdefault(where.topic, {})[str(where.partition)] = offsets[where]
    return found


def _by_partition(found: Mapping[str, Mapping[str, int]]) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic, int(partition)): int(offset)
        for topic, partitions in found.items()
        for partition, offset in partitions.items()
    }


# -- topics and their partitions ---------------------------------------------------------------


def selected_topics(
    cluster: BlockingCluster, options: ReadOptions, *, is_missing_allowed: bool = False
) -> dict[str, Topic]:
    """Those that the options name. Of `assign`, only the partitions that were assigned. One that is
    not there is an error, or left out."""
    if options.subscribe_pattern is not None:
        # The whole name, as Java's `matches` has it.
        pattern = re.compile(options.subscribe_pattern)
        return {
            name: topic
            for name, topic in cluster.topics(None).items()
            if name not in _INTERNAL_TOPICS and pattern.fullmatch(name)
        }
    if options.subscribe:
        found = cluster.topics(options.subscribe)
    else:
        found = _assigned_topics(cluster, options.assign)
    if not is_missing_allowed:
        check_named(cluster, options, partitions_of(found))
    return found


def _assigned_topics(
    cluster: BlockingCluster, assigned: Iterable[TopicPartition]
) -> dict[str, Topic]:
    wanted: dict[str, list[int]] = {}
    for name, partition in assigned:
        wanted.setdefault(name, []).append(partition)
    there = cluster.topics(wanted)
    found = {}
    for name in wanted.keys() & there.keys():
        partitions = there[name].partitions
        kept = {index: partitions[index] for index in wanted[name] if index in partitions}
        found[name] = there[name]._replace(partitions=kept)
    return found


def check_named(
    cluster: BlockingCluster, options: ReadOptions, there: Iterable[TopicPartition]
) -> None:
    """That all which the options name is there."""
    partitions = set(there)
    topics = {where.topic for where in partitions}
    remedy = "create it, or name another"
    for name in options.subscribe:
        if name not in topics:
            problem = f"there is no topic {name} at {cluster.bootstrap_servers}"
            raise OptionError("subscribe", problem, remedy)
    for where in options.assign:
        if where not in partitions:
            kind = "topic" if where.topic not in topics else "partition"
            name = where.topic if kind == "topic" else str(where)
            problem = f"there is no {kind} {name} at {cluster.bootstrap_servers}"
            raise OptionError("assign", problem, remedy)


def partitions_of(topics: Mapping[str, Topic]) -> list[TopicPartition]:
    return [
        TopicPartition(name, partition)
        for name in sorted(topics)
        for partition in sorted(topics[name].partitions)
    ]


# -- from where to where -----------------------------------------------------------------------


def resolve_ranges(cluster: BlockingCluster, options: ReadOptions) -> list[OffsetRange]:
    """Of a batch: one range a partition, those with nothing in them left out. The ends are asked
    for last, so that no range ends before it starts because of what came in between."""
    topics = selected_topics(cluster, options)
    partitions = partitions_of(topics)
    starts = resolve(cluster, options, options.start, partitions)
    ends = resolve(cluster, options, options.end, partitions)
    ranges = [
        OffsetRange(
            where.topic, topics[where.topic].topic_id, where.partition, starts[where], ends[where]
        )
        for where in partitions
    ]
    return [one for one in ranges if one.size]


def resolve(
    cluster: BlockingCluster,
    options: ReadOptions,
    boundary: Boundary,
    partitions: Sequence[TopicPartition],
) -> dict[TopicPartition, int]:
    """The offset of the boundary in each of these partitions."""
    if isinstance(boundary, Everywhere):
        return _listed(cluster, options, dict.fromkeys(partitions, boundary.offset))
    if isinstance(boundary, Offsets):
        return _named_offsets(cluster, options, boundary, partitions)
    wanted = boundary.by_partition_ms
    if boundary.everywhere_ms is not None:
        wanted = dict.fromkeys(partitions, boundary.everywhere_ms)
    _check_names(boundary.option, wanted, partitions)
    found = _listed(cluster, options, wanted)
    too_new = [where for where, offset in found.items() if offset < 0]
    if too_new and not boundary.is_latest_without:
        raise OptionError(
            boundary.option,
            f"{too_new[0]} has no record at or after {wanted[too_new[0]]}",
            "give an earlier time, or set startingOffsetsByTimestampStrategy to latest",
        )
    return {**found, **_listed(cluster, options, dict.fromkeys(too_new, LATEST))}


def _named_offsets(
    cluster: BlockingCluster,
    options: ReadOptions,
    boundary: Offsets,
    partitions: Sequence[TopicPartition],
) -> dict[TopicPartition, int]:
    _check_names(boundary.option, boundary.by_partition, partitions)
    earliest = [where for where in partitions if boundary.by_partition[where] == EARLIEST]
    found = _listed(cluster, options, dict.fromkeys(earliest, EARLIEST))
    others = [where for where in partitions if where not in found]
    for where, latest in _listed(cluster, options, dict.fromkeys(others, LATEST)).items():
        named = boundary.by_partition[where]
        if named > latest and options.fail_on_data_loss:
            # Found here, and not by a task that waits for records which do not come.
            raise OptionError(
                boundary.option,
                f"{where} ends at {latest}, which is before {named}",
                "give offsets that there are, or set failOnDataLoss to false",
            )
        found[where] = latest if named == LATEST else min(named, latest)
    return found


def _check_names(
    option: str, named: Iterable[TopicPartition], partitions: Sequence[TopicPartition]
) -> None:
    missing = sorted(set(partitions) - set(named))
    if missing:
        raise OptionError(
            option, f"{missing[0]} is read and not named", "name each partition that is read"
        )
    strange = sorted(set(named) - set(partitions))
    if strange:
        raise OptionError(
            option, f"{strange[0]} is named and not read", "name only partitions that are read"
        )


def _listed(
    cluster: BlockingCluster, options: ReadOptions, timestamps: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    if not timestamps:
        return {}
    found = cluster.list_offsets(timestamps, isolation_level=options.isolation_level)
    return {where: found[where].offset for where in timestamps}


# -- in how many pieces ------------------------------------------------------------------------


def split(
    ranges: Sequence[OffsetRange], min_partitions: int | None, max_records: int | None
) -> list[OffsetRange]:
    """None larger than is allowed, and about as many as are wanted, in proportion to size and as
    Spark's connector counts them: a range too small for a share of two stays whole, and the large
    ones share what is left."""
    ranges = [one for one in ranges if one.size]
    if max_records is not None:
        ranges = [piece for one in ranges for piece in _cut(one, math.ceil(one.size / max_records))]
    if min_partitions is None or len(ranges) >= min_partitions:
        return ranges
    total = sum(one.size for one in ranges)
    small = {one for one in ranges if _share(one.size, total, min_partitions) == 1}
    large_total = total - sum(one.size for one in small)
    large_wanted = max(min_partitions - len(small), 1)
    pieces: list[OffsetRange] = []
    for one in ranges:
        count = 1 if one in small else _share(one.size, large_total, large_wanted)
        pieces += _cut(one, count)
    return pieces


TASKS = 16
"""So many partitions have a task each, as with Spark's connector, unless there is next to nothing
to read."""
SMALL = 1000
"""Offsets. To start a task takes longer than to read so few records."""
FEW = 100
"""Offsets that are worth a task, whatever is done with them."""


def grouped(ranges: Sequence[OffsetRange]) -> list[tuple[OffsetRange, ...]]:
    """What each task reads: one range, or where there are many, or next to nothing in them, of the
    small ones several."""
    large = [(one,) for one in ranges if one.size > SMALL]
    small = [one for one in ranges if one.size <= SMALL]
    worth = math.ceil(sum(one.size for one in small) / FEW)
    task_count = max(min(TASKS - len(large), worth), 1)
    if len(small) <= task_count:
        return [(one,) for one in ranges]
    return large + [tuple(small[first::task_count]) for first in range(task_count)]


def _share(size: int, total: int, wanted: int) -> int:
    # A half rounds up, as in Java; Python's round would take it to the even neighbour.
    return max(math.floor(size / total * wanted + 0.5), 1)


def _cut(whole: OffsetRange, count: int) -> list[OffsetRange]:
    bounds = [whole.start]
    for left in range(count, 0, -1):
        bounds.append(bounds[-1] + (whole.end - bounds[-1]) // left)
    pieces = itertools.pairwise(bounds)
    return [replace(whole, start=start, end=end) for start, end in pieces if start < end]


def backlog(
    starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    return {where: max(0, end - starts.get(where, end)) for where, end in ends.items()}


def limited(
    starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], limit: int
) -> dict[TopicPartition, int]:
    """Earlier ends, so that about `limit` offsets are read: each partition its share of the
    backlog, and at least one offset of any that has some, or a small one would wait for ever."""
    sizes = backlog(starts, ends)
    total = sum(sizes.values())
    if total <= limit:
        return dict(ends)
    found = dict(ends)
    for where, size in sizes.items():
        if size:
            share = limit * size / total
            taken = math.ceil(share) if share < 1 else math.floor(share)
            found[where] = min(ends[where], starts[where] + taken)
    return found
