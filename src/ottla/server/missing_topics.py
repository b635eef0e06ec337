"""Says in the log that clients find no coordinator, since its topic cannot be made: fewer brokers
are there than the topic has replicas, say. They ask again twice a second and show nobody why."""

from __future__ import annotations

import logging

from ottla.kernel.clock import Clock

log = logging.getLogger(__name__)

INTERVAL_S = 60.0


class MissingTopics:
    """One for a broker, owned by its services."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._said_s: dict[str, float] = {}

    def note(self, topic: str, reason: str) -> None:
        """Once a minute for each of the internal topics."""
        now_s = self._clock.monotonic_s()
        if now_s - self._said_s.get(topic, -INTERVAL_S) >= INTERVAL_S:
            self._said_s[topic] = now_s
            log.warning("clients have to wait, %s could not be created: %s", topic, reason)
