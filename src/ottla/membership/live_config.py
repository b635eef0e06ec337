"""The broker's settings as they are now: the static ones, and over them those from the store."""

from __future__ import annotations

import logging

from ottla.config.broker import BrokerConfig
from ottla.config.dynamic import usable_dynamic
from ottla.config.topic import TopicConfig
from ottla.metadata.image import ClusterImage

log = logging.getLogger(__name__)


class LiveConfig:
    """Owned by the broker. `current` is replaced when a dynamic setting changes; whoever needs a
    setting that may change asks each time."""

    def __init__(self, static: BrokerConfig) -> None:
        self.current = static

    def take_dynamic(self, image: ClusterImage) -> None:
        """What cannot be used (another version stored it) is passed over, with a warning."""
        config = self.current.with_dynamic({}, {})
        default, ignored = usable_dynamic(
            image.broker_configs.get(None, {}), config, per_broker=False
        )
        config = config.with_dynamic({}, default)
        own, also_ignored = usable_dynamic(
            image.broker_configs.get(config.broker_id, {}), config, per_broker=True
        )
        for name, why in ignored + also_ignored:
            log.warning("the stored setting %s is ignored: %s", name, why)
        self.current = config.with_dynamic(own, default)

    def of_topic(self, image: ClusterImage, topic: str) -> TopicConfig:
        return TopicConfig.resolve(image.topic_configs.get(topic, {}), self.current)
