"""Two clusters without brokers, for what a mirror does besides copying records."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from ottla.client.blocking_cluster import (
    EARLIEST,
    READ_COMMITTED,
    OffsetAndTimestamp,
    PartitionLeader,
    Topic,
)
from ottla.client.blocking_group_list import ListedGroup
from ottla.client.blocking_groups import CommittedOffset
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import NO_TOPIC_ID, TopicId, TopicPartition
from ottla.pipeline.jobs import mirror_groups, mirror_run
from ottla.pipeline.jobs.mirror_hops import Hop
from ottla.pipeline.jobs.mirror_offsets import Copied


class FakeLog:
    """Records by their offsets; what is not there was compacted, or is a mark of a transaction."""

    def __init__(self, records: Mapping[int, Hop | None], end: int, start: int = 0) -> None:
        self.records = sorted((place, hop) for place, hop in records.items() if place >= start)
        self.start = start
        self.end = end
        self.read_count = 0

    def read(self, start: int, end: int) -> Iterator[Sequence[Copied]]:
        assert self.start <= start
        assert end <= self.end
        found = [Copied(*one) for one in self.records if start <= one[0] < end]
        for first in range(0, len(found), 3):
            self.read_count += 1
            yield found[first : first + 3]


@dataclass
class FakeCluster:
    """Has a log for each partition, and offsets for each group."""

    cluster_id: str
    logs: dict[TopicPartition, FakeLog] = field(default_factory=dict)
    open_records: int = 0
    """At the end of each log, of transactions."""
    groups: dict[str, dict[TopicPartition, CommittedOffset]] = field(default_factory=dict)
    active: set[str] = field(default_factory=set)
    commits: list[str] = field(default_factory=list)

    def topics(self, names: Iterable[str] | None) -> dict[str, Topic]:
        found: dict[str, Topic] = {}
        wanted = None if names is None else {*names}
        for name, partition in sorted(self.logs):
            if wanted is None or name in wanted:
                topic = found.setdefault(name, Topic(name, NO_TOPIC_ID, {}))
                topic.partitions[partition] = PartitionLeader(None, 0)
        return found

    def list_offsets(
        self, timestamps: Mapping[TopicPartition, int], *, isolation_level: int = READ_COMMITTED
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        found = {}
        for where, timestamp in timestamps.items():
            log = self.logs[where]
            end = log.end + (self.open_records if isolation_level != READ_COMMITTED else 0)
            found[where] = OffsetAndTimestamp(log.start if timestamp == EARLIEST else end, -1, -1)
        return found

    def close(self) -> None:
        pass

    def log(self, where: TopicPartition, topic_id: TopicId, start: int, end: int) -> FakeLog:
        return FakeLog(dict(self.logs[where].records), end, start)

    def list_groups(self) -> dict[str, ListedGroup]:
        return {
            name: ListedGroup("Stable" if name in self.active else "Empty") for name in self.groups
        }

    def committed(
        self, group: str, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, CommittedOffset]:
        found = self.groups.get(group, {})
        return {
            where: offset
            for where, offset in found.items()
            if partitions is None or where in partitions
        }

    def commit(self, group: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        if group in self.active and offsets:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, group)
        self.groups.setdefault(group, {}).update(offsets)
        self.commits += [group] * bool(offsets)


def patch_clients(patch: pytest.MonkeyPatch) -> None:
    """So that the modules of the mirror ask fake clusters."""
    for module in (mirror_groups, mirror_run):
        patch.setattr(module, "PartitionLog", lambda cluster, *args: cluster.log(*args))
        patch.setattr(
            module,
            "committed_offsets",
            lambda cluster, group, partitions=None, **_: cluster.committed(group, partitions),
        )
    patch.setattr(mirror_groups, "list_consumer_groups", lambda cluster: cluster.list_groups())
    patch.setattr(
        mirror_groups,
        "commit_offsets",
        lambda cluster, group, offsets: cluster.commit(group, offsets),
    )
    patch.setattr(mirror_run, "describe_cluster", lambda cluster: cluster)
