from __future__ import annotations

import asyncio

import pytest

from ottla.kernel.ids import BrokerId, TopicPartition
from ottla.replication.replication_quota import ReplicationQuota
from ottla.testing.loop import VirtualClock, VirtualLoop, run_virtual

T3 = TopicPartition("t", 3)


def new_quota(loop: VirtualLoop, bytes_per_second: int = 100) -> ReplicationQuota:
    quota = ReplicationQuota(BrokerId(1), VirtualClock(loop), window_count=11, window_s=1.0)
    quota.bytes_per_second = bytes_per_second
    return quota


def test_the_rate_is_that_of_the_last_samples() -> None:
    async def main(loop: VirtualLoop) -> None:
        quota = new_quota(loop)
        assert not quota.is_exceeded
        quota.record(100)
        assert not quota.is_exceeded, "as much as one sample may have"
        quota.record(1)
        assert quota.is_exceeded
        await asyncio.sleep(1.02)
        assert not quota.is_exceeded, "101 bytes in 1.02 s"
        quota.record(1100)
        assert quota.is_exceeded
        await asyncio.sleep(9.97)
        assert quota.is_exceeded, "1201 bytes in 10.99 s, the last of the first sample"
        await asyncio.sleep(0.02)
        assert quota.is_exceeded, "1100 bytes in 10 s"
        await asyncio.sleep(1.1)
        assert not quota.is_exceeded
        await asyncio.sleep(100)
        quota.record(100)
        assert not quota.is_exceeded, "what was long ago counts no more"

    run_virtual(main)


def test_without_a_limit_nothing_is_too_much() -> None:
    async def main(loop: VirtualLoop) -> None:
        quota = ReplicationQuota(BrokerId(1), VirtualClock(loop), window_count=11, window_s=1.0)
        quota.record(1 << 60)
        assert not quota.is_limited
        assert not quota.is_exceeded
        quota.bytes_per_second = 0
        assert quota.is_limited
        assert quota.is_exceeded

    run_virtual(main)


def test_a_pause_ends_when_the_rate_is_low_enough() -> None:
    async def main(loop: VirtualLoop) -> None:
        quota = new_quota(loop)
        quota.record(150)
        assert quota.is_exceeded
        await asyncio.sleep(quota.pause_s)
        assert loop.now_s == pytest.approx(0.5)
        while quota.is_exceeded:
            await asyncio.sleep(quota.pause_s)
        assert loop.now_s == pytest.approx(1.5)
        quota.record(100_000)
        assert quota.pause_s == 1.0, "the limit may have been raised by then"
        quota.bytes_per_second = 0
        assert quota.pause_s == 1.0

    run_virtual(main)


@pytest.mark.parametrize(
    ("throttled_replicas", "is_throttled"),
    [
        ((), False),
        (("*",), True),
        (("3:1",), True),
        (("03:01", ""), True),
        (("3:2", "2:1", "13:1"), False),
        (("0:1", "3:2", "3:1"), True),
    ],
)
def test_a_topic_names_replicas(throttled_replicas: tuple[str, ...], is_throttled: bool) -> None:
    async def main(loop: VirtualLoop) -> None:
        quota = new_quota(loop)
        for _ in range(2):
            assert quota.throttles(T3, throttled_replicas) is is_throttled
        assert quota.throttles(T3, ("3:1",))
        assert not quota.throttles(T3, ("4:1",)), "it has changed"
        assert not quota.throttles(T3, ())

    run_virtual(main)
