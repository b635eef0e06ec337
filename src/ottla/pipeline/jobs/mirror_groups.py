"""Offsets of groups, translated: a consumer that goes on at the target goes on with the first
record that it has not read at the source."""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from ottla.client.blocking import Deadline
from ottla.client.blocking_cluster import (
    EARLIEST,
    LATEST,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    BlockingCluster,
)
from ottla.client.blocking_group_list import list_consumer_groups
from ottla.client.blocking_groups import CommittedOffset, commit_offsets, committed_offsets
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import TopicPartition
from ottla.pipeline.jobs.mirror_offsets import PartitionLog, first_copied, first_unread_return
from ottla.pipeline.sink.transaction import LedgerEntry

Offsets = Mapping[TopicPartition, int]

_log = logging.getLogger(__name__)

_IS_ACTIVE = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.NON_EMPTY_GROUP,
    }
)
"""What a coordinator says to a commit for a group that has members."""

_LEDGER = "ottla-mirror."
_POLL_S = 0.05


def ledger_group(source_id: str, name: str) -> str:
    """The group in the target whose offsets say how far the mirror of this name has copied which
    partition of that cluster. The cluster is part of it: two mirrors from different clusters under
    one name are two, and a mirror the other way can be known by it."""
    return f"{_ledger_prefix(source_id)}{name}"


def _ledger_prefix(source_id: str) -> str:
    return f"{_LEDGER}{source_id}."


class Clusters(NamedTuple):
    source: BlockingCluster
    target: BlockingCluster
    source_id: str
    target_id: str


class _Translated(NamedTuple):
    committed: CommittedOffset
    """At the source."""
    offset: int
    """At the target."""
    is_final: bool
    """What is copied later does not change it."""


class _Bounds(NamedTuple):
    """Of a partition in the target."""

    start: int
    stable_end: int
    end: int


class MirroredGroups:
    """Belongs to a Mirror. What it has committed is in the target. It remembers that too, so that
    it follows a group that goes back at the source; after a restart it takes any offset in the
    target for one that the group has itself read up to there, and only moves forward."""

    def __init__(self, clusters: Clusters, pattern: str, shown_prefix: str) -> None:
        """Groups with this prefix only show how far pipelines are: nobody reads by them."""
        self._clusters = clusters
        self._not_copied = (_LEDGER, shown_prefix)
        self._pattern = re.compile(pattern)
        self._known: dict[tuple[str, TopicPartition], _Translated] = {}

    def copy(self, positions: Offsets, *, patience_s: float = 0) -> None:
        """Of partitions that are mirrored, with how far they are. Transactions of the target that
        are open are waited for so long; what they hide is translated the next time."""
        source, target = self._clusters.source, self._clusters.target
        there = list_consumer_groups(source)
        here = list_consumer_groups(target)
        wanted: dict[str, dict[TopicPartition, CommittedOffset]] = {}
        for group in sorted(there):
            if not self._pattern.fullmatch(group) or group.startswith(self._not_copied):
                continue
            if group in here and here[group].is_active:
                continue
            committed = committed_offsets(source, group, is_stable=False)
            wanted[group] = {
                where: offset
                for where, offset in committed.items()
                if where in positions and LedgerEntry.parse(offset.metadata) is None
            }
        news = {
            where
            for group, committed in wanted.items()
            for where, offset in committed.items()
            if not self._is_final(group, where, offset)
        }
        look = _Look(self._clusters, positions, news, self._returned(there), patience_s)
        for group, committed in wanted.items():
            self._copy_group(group, committed, look)

    def _copy_group(
        self, group: str, committed: Mapping[TopicPartition, CommittedOffset], look: _Look
    ) -> None:
        target = self._clusters.target
        here = committed_offsets(target, group, committed, is_stable=False) if committed else {}
        commits: dict[TopicPartition, CommittedOffset] = {}
        translations: dict[tuple[str, TopicPartition], _Translated] = {}
        for where, offset in committed.items():
            known = self._known.get((group, where))
            if where not in look.bounds:
                continue
            translated = look.translate(where, offset)
            found = here.get(where)
            is_ours = known is not None and found is not None and found.offset == known.offset
            if found is None or is_ours or translated.offset > found.offset:
                translations[group, where] = translated
                wanted = CommittedOffset(translated.offset, offset.metadata)
                if found is None or found[:2] != wanted[:2]:
                    commits[where] = wanted
        try:
            commit_offsets(target, group, commits)
        except KafkaError as error:
            if error.code not in _IS_ACTIVE:
                raise
            _log.info("group %s has members at the target by now: its offsets stay", group)
            return
        self._known.update(translations)

    def _is_final(self, group: str, where: TopicPartition, offset: CommittedOffset) -> bool:
        known = self._known.get((group, where))
        return known is not None and known.is_final and known.committed == offset

    def _returned(self, groups: Iterable[str]) -> dict[TopicPartition, int]:
        """How far a mirror from the target to the source is, if there is one."""
        prefix = _ledger_prefix(self._clusters.target_id)
        found: dict[TopicPartition, int] = {}
        for group in groups:
            if group.startswith(prefix):
                ledger = committed_offsets(self._clusters.source, group, is_stable=False)
                for where, offset in ledger.items():
                    found[where] = min(offset.offset, found.get(where, offset.offset))
        return found


class _Look:
    """At some partitions of both clusters, at one time."""

    def __init__(
        self,
        clusters: Clusters,
        positions: Offsets,
        partitions: Collection[TopicPartition],
        returned: Offsets,
        patience_s: float,
    ) -> None:
        self._clusters = clusters
        self._positions = positions
        self._returned = returned
        target = clusters.target
        names = {where.topic for where in partitions}
        self._topics = target.topics(names)
        there = [
            where
            for where in partitions
            if where.topic in self._topics
            and where.partition in self._topics[where.topic].partitions
        ]
        self.bounds = self._bounds(there, Deadline(patience_s))

    def _bounds(
        self, partitions: Collection[TopicPartition], deadline: Deadline
    ) -> dict[TopicPartition, _Bounds]:
        if not partitions:
            return {}
        starts = self._offsets(partitions, EARLIEST, READ_COMMITTED)
        while True:
            stable = self._offsets(partitions, LATEST, READ_COMMITTED)
            ends = self._offsets(partitions, LATEST, READ_UNCOMMITTED)
            if stable == ends or not deadline.pause(_POLL_S):
                return {
                    where: _Bounds(starts[where], stable[where], ends[where])
                    for where in partitions
                }

    def _offsets(
        self, partitions: Collection[TopicPartition], which: int, isolation_level: int
    ) -> dict[TopicPartition, int]:
        found = self._clusters.target.list_offsets(
            dict.fromkeys(partitions, which), isolation_level=isolation_level
        )
        return {where: found[where].offset for where in partitions}

    def translate(self, where: TopicPartition, committed: CommittedOffset) -> _Translated:
        bounds = self.bounds[where]
        topic_id = self._topics[where.topic].topic_id
        log = PartitionLog(self._clusters.target, where, topic_id, bounds.start, bounds.stable_end)
        found = None
        if committed.offset < self._positions[where]:
            found = first_copied(log, self._clusters.source_id, committed.offset)
        # Without one it has read all that was copied. What is copied later comes behind the end,
        # unless it is of a transaction that is open: that may yet be committed below it.
        is_final = found is not None or (
            committed.offset <= self._positions[where] and bounds.stable_end == bounds.end
        )
        offset = bounds.stable_end if found is None else found
        if where in self._returned:
            offset = self._unread_return(where, log, committed.offset, offset)
        return _Translated(committed, offset, is_final)

    def _unread_return(
        self, where: TopicPartition, target: PartitionLog, offset: int, end: int
    ) -> int:
        cluster = self._clusters.source
        topic = cluster.topics([where.topic])[where.topic]
        bounds = [
            cluster.list_offsets({where: which})[where].offset for which in (EARLIEST, LATEST)
        ]
        return first_unread_return(
            PartitionLog(cluster, where, topic.topic_id, *bounds),
            target,
            self._clusters.source_id,
            self._clusters.target_id,
            offset,
            self._returned[where],
            end,
        )
