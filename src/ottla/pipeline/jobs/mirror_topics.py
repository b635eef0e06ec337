"""Topics of the source in the target: made there with as many partitions, and set as they are.

Settings follow those of the source, and go where they are taken away there, but for three kinds.
Some are about the brokers of a cluster, and stay the target's own business. Some would make the
target refuse or change what it is to take as it is: those it gets as a mirror needs them. And what
decides which records are kept is copied also where it is the default of the source's brokers: a
target whose brokers delete after a week would else delete what a mirror brings there for good.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

from ottla.client.blocking_cluster import BlockingCluster, Topic
from ottla.client.blocking_topics import (
    ConfigEntry,
    add_partitions,
    alter_configs,
    create_topics,
    describe_configs,
)

Configs = Mapping[str, ConfigEntry]

_log = logging.getLogger(__name__)

_OF_BROKERS = frozenset(
    {
        # These name brokers.
        "leader.replication.throttled.replicas",
        "follower.replication.throttled.replicas",
        # How safe a write is goes with how many replicas there are, and that is the target's.
        "min.insync.replicas",
        "unclean.leader.election.enable",
    }
)
_OF_BROKERS_PREFIXES = ("remote.", "local.retention.")
"""Tiered storage: a cluster has it or not."""

_LONG_MAX = str(2**63 - 1)
_AS_NEEDED = {
    # Else the target would put its own time instead, or refuse records for theirs.
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": _LONG_MAX,
    "message.timestamp.after.max.ms": _LONG_MAX,
    "message.timestamp.difference.max.ms": _LONG_MAX,
}
_KEEPING = ("cleanup.policy", "retention.ms", "retention.bytes")
_SIZE = "max.message.bytes"
_HOPS_BYTES = 1024
"""How much a record may grow by the headers that say where it was."""


class OtherPartitions(Exception):
    """A topic is there already, and not with the partitions that it should have."""


class MirroredTopics:
    """Belongs to a Mirror. What it has done is in the target; it remembers nothing but which
    settings it has complained about."""

    def __init__(
        self, source: BlockingCluster, target: BlockingCluster, excluded: Collection[str]
    ) -> None:
        self._source = source
        self._target = target
        self._excluded = frozenset(excluded)
        self._unknown: set[str] = set()

    def make(self, topics: Mapping[str, Topic], begun: Collection[str]) -> None:
        """These topics of the source, so that the target has their partitions. `begun` are those
        that the mirror has copied from before: only to these it adds partitions."""
        there = self._target.topics(topics)
        missing, grown = {}, {}
        for name, topic in topics.items():
            wanted = len(topic.partitions)
            if name not in there:
                missing[name] = wanted
            elif len(there[name].partitions) < wanted and name in begun:
                grown[name] = wanted
            elif len(there[name].partitions) != wanted:
                raise OtherPartitions(
                    f"topic {name} has {wanted} partitions in the source and "
                    f"{len(there[name].partitions)} in the target, where it was before this "
                    "mirror: give it as many there, or delete it there, or leave it out of topics"
                )
        create_topics(self._target, missing)
        add_partitions(self._target, grown)
        for name in (*missing, *grown):
            _log.info(
                "topic %s of the target has %d partitions now", name, len(topics[name].partitions)
            )

    def copy_configs(self, names: Collection[str]) -> None:
        source, target = (
            describe_configs(cluster, names) for cluster in (self._source, self._target)
        )
        changes = {}
        for name in names:
            self._complain(name, source[name], target[name])
            changes[name] = config_changes(source[name], target[name], self._excluded)
        changes = {name: values for name, values in changes.items() if values}
        alter_configs(self._target, changes)
        for name, values in changes.items():
            _log.info("settings of topic %s of the target have changed: %s", name, values)

    def _complain(self, topic: str, source: Configs, target: Configs) -> None:
        for name, entry in source.items():
            if _is_copied(name, entry, self._excluded) and name not in target:
                if name not in self._unknown:
                    _log.warning("the target does not know setting %s of topic %s", name, topic)
                self._unknown.add(name)


def config_changes(
    source: Configs, target: Configs, excluded: Collection[str] = ()
) -> dict[str, str | None]:
    """What to set on the topic in the target; None is to give back to its brokers. What these do
    not know is left out."""
    wanted = {
        name: entry.value
        for name, entry in source.items()
        if _is_copied(name, entry, excluded) and name in target
    }
    found: dict[str, str | None] = {
        name: value for name, value in wanted.items() if target[name] != ConfigEntry(value, True)
    }
    needed = {
        **{name: source[name].value for name in _KEEPING if name in source},
        **_AS_NEEDED,
        **_size(source, target),
    }
    for name, value in needed.items():
        if name in target and name not in (*wanted, *excluded) and target[name].value != value:
            found[name] = value
    for name, entry in target.items():
        is_ours = name in wanted or name in needed or _stays(name, excluded)
        if entry.is_set and not is_ours:
            found[name] = None
    return found


def _size(source: Configs, target: Configs) -> dict[str, str]:
    """Never less than the target has: it may hold such records already."""
    if _SIZE not in source or _SIZE not in target:
        return {}
    least = int(source[_SIZE].value or 0) + _HOPS_BYTES
    return {_SIZE: str(max(least, int(target[_SIZE].value or 0)))}


def _is_copied(name: str, entry: ConfigEntry, excluded: Collection[str]) -> bool:
    is_plain = name not in _AS_NEEDED and name != _SIZE and not _stays(name, excluded)
    return entry.is_set and entry.value is not None and is_plain


def _stays(name: str, excluded: Collection[str]) -> bool:
    return name in _OF_BROKERS or name in excluded or name.startswith(_OF_BROKERS_PREFIXES)
