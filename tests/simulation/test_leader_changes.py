"""Replicas over changes of leader, after past bugs of Kafka: real brokers on simulated hosts, and a
controller that does what the test says.

A seed makes the network's delays, and what a lost power leaves on a disk.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import TopicPartition
from ottla.records.batch import iter_headers
from ottla.records.record import iter_records
from tests.support.counts import count
from tests.support.simulated_cluster import SimulatedCluster, host_of, with_cluster

T0 = TopicPartition("t", 0)
SEEDS = range(count(100))

Scenario = Callable[[SimulatedCluster], Coroutine[Any, Any, None]]


async def acknowledged(cluster: SimulatedCluster, value: bytes) -> int:
    """Its offset."""
    answer = await cluster.produce(T0, value)
    assert answer.error_code == ErrorCode.NONE, ErrorCode(answer.error_code).name
    return answer.base_offset


async def until(is_so: Callable[[], bool], *, step_s: float = 0.0001, most_s: float = 30) -> None:
    for _ in range(int(most_s / step_s)):
        if is_so():
            return
        await asyncio.sleep(step_s)
    pytest.fail("it does not come about")


def end_offset(cluster: SimulatedCluster, broker_id: int) -> int:
    return cluster.hosted(broker_id, T0).log.log_end_offset


def values_of(cluster: SimulatedCluster, broker_id: int) -> dict[int, bytes]:
    """By offset, what its files have."""
    content = memoryview(cluster.log_of(broker_id, T0))
    return {
        record.offset: bytes(record.value or b"")
        for position, header in iter_headers(content)
        for record in iter_records(content[position : position + header.size_bytes])
    }


async def come_together(cluster: SimulatedCluster, *broker_ids: int) -> None:
    leader = cluster.partitions[T0].leader
    await until(
        lambda: all(
            cluster.log_of(each, T0) == cluster.log_of(leader, T0)
            and cluster.hosted(each, T0).high_watermark == end_offset(cluster, leader)
            for each in broker_ids
        ),
        step_s=0.1,
    )


# KIP-101: a follower cut its log at its high watermark, which is older than its leader's.


async def restarted_follower(cluster: SimulatedCluster) -> None:
    """It has what was acknowledged, has not heard that it is committed, starts anew, and has to
    lead before it could ask."""
    await cluster.create_topic("t", (1, 2))
    await acknowledged(cluster, b"m0")
    produced = asyncio.create_task(acknowledged(cluster, b"m1"))
    await until(lambda: end_offset(cluster, 2) == 2)
    cluster.network.cut(host_of(1), host_of(2))
    assert await produced == 1
    assert cluster.hosted(2, T0).high_watermark < 2, "this test is about an old one"
    cluster.kill(2)
    await cluster.start(2)
    await asyncio.sleep(cluster.rng.uniform(0, 2))
    cluster.kill(1)
    await cluster.elect(T0, 2, (2,))
    assert values_of(cluster, 2) == {0: b"m0", 1: b"m1"}, "an acknowledged record is lost"
    assert await acknowledged(cluster, b"m2") == 2
    cluster.network.heal(host_of(1), host_of(2))
    await cluster.start(1)
    await come_together(cluster, 1)


async def power_lost_everywhere(cluster: SimulatedCluster) -> None:
    """The first to come back has less than the other, and leads: where that has another record at
    the same offset, it goes."""
    await cluster.create_topic("t", (1, 2))
    await acknowledged(cluster, b"m0")
    for broker_id in (1, 2):
        await cluster.hosted(broker_id, T0).log.flush()
    for number in range(1, 4):
        await acknowledged(cluster, b"m%d" % number)
    await cluster.hosted(1, T0).log.flush()
    cluster.lose_power(1, 2)
    await cluster.start(2)
    await cluster.elect(T0, 2, (2,))
    kept = end_offset(cluster, 2)
    assert await acknowledged(cluster, b"n") == kept
    await cluster.start(1)
    await come_together(cluster, 1)
    assert values_of(cluster, 1)[kept] == b"n"


# KIP-279: leaders that nobody followed have left epochs behind which others never saw.


async def leaders_that_nobody_followed(cluster: SimulatedCluster) -> None:
    rng = cluster.rng
    await cluster.create_topic("t", (1, 2, 3))
    await acknowledged(cluster, b"same")
    await come_together(cluster, 1, 2, 3)
    for broker_id in cluster.machines:
        cluster.isolate(broker_id, *(host_of(each) for each in cluster.machines))
    for turn in range(rng.randint(3, 8)):
        leader = rng.choice([1, 2, 3])
        await cluster.elect(T0, leader, (leader,))
        for number in range(rng.randint(0, 3)):
            await acknowledged(cluster, b"%d-%d by %d" % (turn, number, leader))
    for broker_id in cluster.machines:
        cluster.rejoin(broker_id, *(host_of(each) for each in cluster.machines))
    last = cluster.partitions[T0].leader
    content = values_of(cluster, last)
    await come_together(cluster, 1, 2, 3)
    assert values_of(cluster, last) == content, "the leader's log does not change"


# KAFKA-7128: the high watermark of a new leader may be older than what its predecessor had told.


async def member_of_the_isr_that_lags(cluster: SimulatedCluster) -> None:
    """A follower joins the ISR when it has all that was ever committed, not when it has as much as
    the new leader knows to be committed."""
    record_count = 20
    cluster.isolate(3, host_of(1), host_of(2))
    await cluster.create_topic("t", (1, 2, 3))
    await cluster.elect(T0, 1, (1, 2))
    for number in range(record_count - 1):
        await acknowledged(cluster, b"m%d" % number)
    produced = asyncio.create_task(acknowledged(cluster, b"last"))
    await until(lambda: end_offset(cluster, 2) == record_count)
    cluster.network.cut(host_of(1), host_of(2))
    await produced
    cluster.kill(1)
    await cluster.elect(T0, 2, (2,))
    # As after a restart: from the checkpoint, which is written every few seconds.
    cluster.hosted(2, T0).high_watermark = cluster.rng.randrange(record_count)
    cluster.rejoin(3, host_of(2))
    await until(lambda: 3 in cluster.partitions[T0].isr)
    cluster.kill(2)
    await cluster.elect(T0, 3, (3,))
    assert len(values_of(cluster, 3)) == record_count, "acknowledged records are lost"


def run(scenario: Scenario, seed: int, **settings: str) -> None:
    with_cluster(scenario, broker_count=3, seed=seed, **settings)


def run_lagging(seed: int) -> None:
    settings = {"min_insync_replicas": "2", "replica_fetch_max_bytes": "100"}
    run(member_of_the_isr_that_lags, seed, **settings)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_follower_that_starts_anew_keeps_what_was_acknowledged(seed: int) -> None:
    run(restarted_follower, seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_replicas_that_lost_their_ends_have_one_value_an_offset(seed: int) -> None:
    run(power_lost_everywhere, seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_logs_of_leaders_that_nobody_followed_come_together(seed: int) -> None:
    run(leaders_that_nobody_followed, seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_who_joins_the_isr_has_all_that_was_committed(seed: int) -> None:
    run_lagging(seed)
