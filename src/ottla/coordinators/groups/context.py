"""What the parts of a group shard share."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from ottla.config.broker import BrokerConfig
from ottla.config.group import GroupConfig
from ottla.coordinators.groups.group import Group
from ottla.coordinators.timers import Timers
from ottla.kernel.ids import TopicId


class TopicInfo(NamedTuple):
    id: TopicId
    name: str
    partition_count: int


class TopicLookup(Protocol):
    """The topics of the cluster, as they are now."""

    def by_name(self, name: str) -> TopicInfo | None: ...

    def by_id(self, topic_id: TopicId) -> TopicInfo | None: ...

    def names(self) -> list[str]: ...


class Client(NamedTuple):
    """Who sent a request, and in which version."""

    id: str
    host: str
    """As Kafka shows it: with a slash before it."""
    api_version: int


@dataclass(slots=True)
class GroupContext:
    """Owned by one shard, and as old as it."""

    timers: Timers
    config: Callable[[], BrokerConfig]
    """As it is now: dynamic settings change it."""
    now_ms: Callable[[], int]
    rng: random.Random
    topics: TopicLookup
    groups: dict[str, Group] = field(default_factory=dict)
    overrides_of: Callable[[str], Mapping[str, str]] = lambda group_id: {}
    """The settings that a group has for itself."""

    def group_config(self, group_id: str) -> GroupConfig:
        """As it is now."""
        return GroupConfig.resolve(self.overrides_of(group_id), self.config())
