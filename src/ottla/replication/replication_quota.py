"""How many bytes a second replicas may move that are named in a throttle (KIP-73).

A reassignment copies whole partitions: `leader.replication.throttled.replicas` and
`follower.replication.throttled.replicas` of a topic name the replicas that must not do so at full
speed, `*.replication.throttled.rate` of a broker says how fast they may. The leader serves, and the
follower fetches, nothing of them while the rate is above that, unless the follower is in sync: who
is in sync stays so.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from ottla.kernel.clock import Clock
from ottla.kernel.ids import BrokerId, TopicPartition

ALL_REPLICAS = "*"

UNLIMITED = (1 << 63) - 1

_PAUSE_S_MIN, _PAUSE_S_MAX = 0.01, 1.0


class _Throttled(NamedTuple):
    """Of one topic."""

    setting: Sequence[str]
    partitions: frozenset[int] | None
    """None for all."""


class _Sample:
    __slots__ = ("byte_count", "start_s")

    def __init__(self, start_s: float) -> None:
        self.start_s = start_s
        self.byte_count = 0


class ReplicationQuota:
    """Owned by the replica manager, one for what this broker serves as a leader and one for what it
    fetches as a follower. Nothing of it outlives the broker.

    The rate is that of the last `window_count` samples of `window_s` each, as Kafka's: what was
    moved in them, by the time since the first of them began, and by `window_s` at least."""

    def __init__(
        self, own_id: BrokerId, clock: Clock, *, window_count: int, window_s: float
    ) -> None:
        self._own_id = own_id
        self._clock = clock
        self._window_count = window_count
        self._window_s = window_s
        self._samples: deque[_Sample] = deque()
        self._throttled: dict[str, _Throttled] = {}
        self.bytes_per_second = UNLIMITED

    def throttles(self, topic_partition: TopicPartition, throttled_replicas: Sequence[str]) -> bool:
        """Whether that setting of the topic names the replica of this broker."""
        topic, partition = topic_partition
        if not throttled_replicas:
            self._throttled.pop(topic, None)
            return False
        throttled = self._throttled.get(topic)
        # One list for all partitions of a topic: a large reassignment names thousands.
        if throttled is None or throttled.setting is not throttled_replicas:
            throttled = self._throttled[topic] = self._parse(throttled_replicas)
        return throttled.partitions is None or partition in throttled.partitions

    def _parse(self, throttled_replicas: Sequence[str]) -> _Throttled:
        if throttled_replicas[0] == ALL_REPLICAS:
            return _Throttled(throttled_replicas, None)
        named = (each.split(":") for each in throttled_replicas if each)
        own_id = self._own_id
        return _Throttled(
            throttled_replicas,
            frozenset(int(partition) for partition, broker_id in named if int(broker_id) == own_id),
        )

    @property
    def is_limited(self) -> bool:
        return self.bytes_per_second < UNLIMITED

    def record(self, byte_count: int) -> None:
        if not byte_count:
            return
        now_s = self._clock.monotonic_s()
        self._purge(now_s)
        samples = self._samples
        if not samples or now_s - samples[-1].start_s >= self._window_s:
            samples.append(_Sample(now_s))
        samples[-1].byte_count += byte_count

    @property
    def is_exceeded(self) -> bool:
        if not self.is_limited:
            return False
        byte_count, elapsed_s = self._measured()
        return byte_count > self.bytes_per_second * elapsed_s

    @property
    def pause_s(self) -> float:
        """After which to look again, where it is exceeded."""
        byte_count, elapsed_s = self._measured()
        pause_s = byte_count / max(1, self.bytes_per_second) - elapsed_s
        return min(max(pause_s, _PAUSE_S_MIN), _PAUSE_S_MAX)

    def _measured(self) -> tuple[int, float]:
        now_s = self._clock.monotonic_s()
        self._purge(now_s)
        if not self._samples:
            return 0, self._window_s
        byte_count = sum(each.byte_count for each in self._samples)
        return byte_count, max(now_s - self._samples[0].start_s, self._window_s)

    def _purge(self, now_s: float) -> None:
        oldest_s = now_s - self._window_count * self._window_s
        while self._samples and self._samples[0].start_s <= oldest_s:
            self._samples.popleft()
