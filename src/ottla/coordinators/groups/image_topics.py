"""The topics of the image, as groups need them."""

from __future__ import annotations

from ottla.coordinators.groups.context import TopicInfo
from ottla.kernel.ids import TopicId
from ottla.metadata.image import ClusterImage, TopicImage


class ImageTopics:
    """Owned by a shard; what it tells is always of now."""

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
