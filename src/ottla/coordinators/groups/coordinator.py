"""The group coordinator as the handlers see it: finds the shard of a group."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

from ottla.coordination.image import ClusterImage, TopicImage
from ottla.coordinators.groups.context import GroupContext, TopicInfo
from ottla.coordinators.groups.shard import GroupShard
from ottla.coordinators.runtime import Runtime
from ottla.coordinators.shard import ShardTimers
from ottla.kernel.clock import Clock
from ottla.kernel.config.broker import BrokerConfig
from ottla.kernel.ids import TopicId


class ImageTopics:
    """The topics of the image, as groups need them."""

    def __init__(self, image: ClusterImage) -> None:
        self._image = image

    def by_name(self, name: str) -> TopicInfo | None:
        return _info(self._image.topics.get(name))

    def by_id(self, topic_id: TopicId) -> TopicInfo | None:
        return _info(self._image.topics_by_id.get(topic_id))

    def names(self) -> list[str]:
        return list(self._image.topics)


def _info(topic: TopicImage | None) -> TopicInfo | None:
    return None if topic is None else TopicInfo(topic.id, topic.name, len(topic.partitions))


class GroupCoordinator(Runtime[GroupShard]):
    """Owned by the broker."""

    def __init__(
        self,
        image: ClusterImage,
        config: Callable[[], BrokerConfig],
        clock: Clock,
        rng: random.Random,
    ) -> None:
        topics = ImageTopics(image)

        def make_shard(timers: ShardTimers) -> GroupShard:
            return GroupShard(
                GroupContext(
                    timers,
                    config,
                    clock.now_ms,
                    rng,
                    topics,
                    overrides_of=lambda group_id: image.group_configs.get(group_id, {}),
                )
            )

        super().__init__(make_shard, clock)

    def topics_changed(self, names: Iterable[str]) -> None:
        """Made, deleted, or with more partitions: groups that read them are assigned anew."""
        changed = list(names)
        self.tell_all(lambda shard: shard.topics_changed(changed))

    async def topics_deleted(self, names: Iterable[str]) -> None:
        gone = list(names)
        await self.write_all(lambda shard: shard.topics_deleted(gone))
