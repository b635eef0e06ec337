"""The group coordinator as the handlers see it: finds the shard of a group.

What a shard is made of is imported with the first one: a broker that nobody has asked for a group
has not paid 20 ms and 2 MB for them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from ottla.config.broker import BrokerConfig
from ottla.coordinators.runtime import Runtime
from ottla.coordinators.shard import ShardTimers
from ottla.kernel.clock import Clock
from ottla.metadata.image import ClusterImage

if TYPE_CHECKING:
    from ottla.coordinators.groups.group_shard import GroupShard


class GroupCoordinator(Runtime["GroupShard"]):
    """Owned by the broker."""

    def __init__(
        self,
        image: ClusterImage,
        config: Callable[[], BrokerConfig],
        clock: Clock,
        rng: random.Random,
    ) -> None:
        def make_shard(timers: ShardTimers) -> GroupShard:
            from ottla.coordinators.groups.context import GroupContext
            from ottla.coordinators.groups.group_shard import GroupShard
            from ottla.coordinators.groups.image_topics import ImageTopics

            return GroupShard(
                GroupContext(
                    timers,
                    config,
                    clock.now_ms,
                    rng,
                    ImageTopics(image),
                    overrides_of=lambda group_id: image.group_configs.get(group_id, {}),
                )
            )

        super().__init__(make_shard, clock, config().offsets_commit_timeout_ms)

    def topics_changed(self, names: Iterable[str]) -> None:
        """Made, deleted, or with more partitions: groups that read them are assigned anew."""
        changed = list(names)
        self.tell_all(lambda shard: shard.topics_changed(changed))

    async def topics_deleted(self, names: Iterable[str]) -> None:
        gone = list(names)
        await self.write_all(lambda shard: shard.topics_deleted(gone))
