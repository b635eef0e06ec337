"""What has gone wrong in Kafka's clusters, or nearly, made to happen in order: brokers with their
controllers on simulated hosts, each scenario over several seeds of delays.

Where each of the past bugs by name is played (`test_cluster_mutants` shows for them that they fail
without what guards against them):

| the bug                             | where                                                      |
|-------------------------------------|------------------------------------------------------------|
| KIP-101, cut at the high watermark  | test_leader_changes: restarted_follower,                   |
|                                     | power_lost_everywhere                                      |
| KIP-279, epochs that nobody saw     | test_leader_changes: leaders_that_nobody_followed          |
| KIP-320, readers and a zombie       | here: reader_sent_to_a_zombie                              |
| KIP-966, last replica standing      | here: last_replica_standing, first_back_is_not_in_sync     |
| KAFKA-7128, joins too early         | test_leader_changes: member_of_the_isr_that_lags           |
| KAFKA-2729, sessions lost           | here: sessions_lost_together                               |
| KIP-890, hanging transaction        | test_transaction_scenarios: hanging_transaction;           |
|                                     | test_past_transaction_bugs, of one partition               |
| Jepsen on Bufstream: write loss     | test_transaction_scenarios: write_loss                     |
| Jepsen on Bufstream: aborted read   | test_transaction_scenarios: aborted_read                   |
| Jepsen on Bufstream: torn           | test_transaction_scenarios: torn_transaction,              |
| transaction                         | committed_and_left_alone, left_open_by_a_crash             |
| stale controller                    | here: stale_controller, deposed_controller                 |
| zombie leader                       | here: zombie_leader, sent_again_to_a_zombie                |
| coordinator isolated                | here: coordinator_isolated                                 |
| deletion met by a broker's return   | here: deletion_met_by_a_return                             |
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from ottla.coordination import znodes
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import ProducerIdAndEpoch, TopicPartition
from ottla.kernel.internal_topics import CONSUMER_OFFSETS
from ottla.kernel.java import abs_hash
from ottla.testing.history.replica_log import read_replica_logs
from ottla.testing.simulation.admin import Admin
from ottla.testing.simulation.client import GROUP, Refused, SimulatedClient, check
from ottla.testing.simulation.reading import fetch_committed, fetch_offsets
from ottla.testing.simulation.sending import PRODUCE_FAILURES, Sequences, send_batch
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from tests.support.counts import count
from tests.support.quiet_cluster import T0, QuietCluster, with_quiet_cluster
from tests.support.stage import NEVER, Stage

SEEDS = range(count(20))

Scenario = Callable[[Stage], Awaitable[None]]


async def zombie_leader(stage: Stage) -> None:
    """It stands still, another leads, and it wakes up as one who does not know."""
    await stage.write()
    zombie = stage.leader()
    stage.cluster.pause(zombie)
    await stage.until(lambda: stage.leader() != zombie)
    await stage.write()
    stray = stage.quiet.client("stray")
    batch = Sequences(ProducerIdAndEpoch(8, 0)).batch(T0, ["stray"], stage.quiet.now_ms())
    stray._leaders[T0] = zombie
    sending = asyncio.create_task(send_batch(stray, T0, batch))
    await asyncio.sleep(stage.cluster.rng.uniform(0, 1))
    stage.cluster.resume(zombie)
    with pytest.raises((Refused, OSError)):
        await sending
    await stage.healed()
    await stage.write()
    stray.close()


async def stale_controller(stage: Stage) -> None:
    """It stands still over an election of another, which decides something. Then it goes on."""
    stale = stage.cluster.controller_id()
    assert stale is not None
    await stage.write()
    admin = stage.quiet.client("late")
    # Of two replicas: while it stands still there are no more brokers.
    creating = asyncio.create_task(Admin(admin).create_topic("u", 1, 2, {}))
    await asyncio.sleep(stage.cluster.rng.uniform(0, 0.05))
    stage.cluster.pause(stale)
    await stage.until(lambda: stage.cluster.controller_id() not in (None, stale))
    await creating
    await stage.write()
    stage.cluster.resume(stale)
    await stage.healed()
    await stage.write()
    assert "u" in stage.cluster.ensemble.children(znodes.TOPICS)
    admin.close()


async def deposed_controller(stage: Stage) -> None:
    """What it writes is on its way to the store while another is elected, and comes too late."""
    stale = stage.cluster.controller_id()
    assert stale is not None
    await stage.write()
    store = stage.cluster.machines[stale].remote_store
    store.cut()
    admin = stage.quiet.client("late")
    creating = asyncio.create_task(Admin(admin).create_topic("u", 1, 3, {}))
    await asyncio.sleep(0.3)
    ensemble = stage.cluster.ensemble
    ensemble.delete(znodes.CONTROLLER)
    await stage.until(lambda: stage.cluster.controller_id() not in (None, stale))
    epoch = znodes.decode_controller_epoch(ensemble.get(znodes.CONTROLLER_EPOCH).data)
    store.heal()
    await creating
    (made_by,) = (
        state.controller_epoch
        for each, _, state in stage.cluster.partitions()
        if each.topic == "u" and state is not None
    )
    assert made_by >= epoch, "a controller that was replaced has written"
    await stage.healed()
    await stage.write()
    admin.close()


async def sessions_lost_together(stage: Stage) -> None:
    """KAFKA-2729: after the sessions of the controller and of a leader, the leader could change its
    ISR no more."""
    await stage.write()
    for broker_id in {stage.leader(), stage.cluster.controller_id()}:
        assert broker_id is not None
        stage.cluster.machines[broker_id].expire_session()
    await asyncio.sleep(stage.cluster.rng.uniform(0, 2))
    await stage.healed()
    gone = stage.others()[0]
    stage.kill(gone)
    await stage.until(lambda: gone not in stage.isr())
    await stage.write()
    await stage.healed()
    assert stage.isr() == {*stage.cluster.machines}


async def last_replica_standing(stage: Stage) -> None:
    """KIP-966: the last of the ISR loses what it had not synced. Those who fell out before it have
    everything that was acknowledged."""
    for _ in range(3):
        await stage.write()
    last = stage.leader()
    for broker_id in stage.others():
        stage.kill(broker_id)
        await stage.until(lambda: broker_id not in stage.isr())  # noqa: B023
    assert stage.isr() == {last}
    stage.cluster.wanted[last] = False
    stage.cluster.lose_power(last)
    await asyncio.sleep(stage.cluster.rng.uniform(0, 3))
    await stage.healed()
    await stage.write()


async def deletion_met_by_a_return(stage: Stage) -> None:
    """A broker was away when a topic was deleted and made again. It has the old log, and must not
    take it for the new one."""
    await stage.write()
    gone = stage.others()[0]
    stage.kill(gone)
    admin = stage.quiet.client("late")
    await stage.until(lambda: gone not in stage.isr())
    deleting = asyncio.create_task(Admin(admin).delete_topic("t"))
    await asyncio.sleep(stage.cluster.rng.uniform(0, 3))
    await stage.healed()
    await deleting
    await stage.until(lambda: "t" not in stage.cluster.ensemble.children(znodes.TOPICS))
    await Admin(admin).create_topic("t", 2, 3, {})
    stage.write_anew()
    await stage.healed()
    await stage.write()
    admin.close()


async def reader_sent_to_a_zombie(stage: Stage) -> None:
    """KIP-320: whoever had read from a leader, and came to the one before, which ends earlier, was
    told that there is no such offset, and began anew or left records out."""
    await stage.write()
    zombie = stage.leader()
    stage.isolate(zombie)
    await stage.until(lambda: stage.leader() != zombie)
    for _ in range(3):
        await stage.write()
    reader = stage.quiet.client("misled")

    async def learn_of_the_leader() -> None:
        reader.forget_leader(T0)
        if await reader.leader_of(T0) == zombie:
            raise Refused(ErrorCode.LEADER_NOT_AVAILABLE)

    await reader.insist(learn_of_the_leader, gives_up_on=NEVER)
    reader._leaders[T0] = zombie
    with pytest.raises(Refused) as caught:
        await fetch_committed(reader, T0, len(stage.written))
    assert caught.value.code is ErrorCode.UNKNOWN_LEADER_EPOCH
    reader.close()


async def sent_again_to_a_zombie(stage: Stage) -> None:
    """A leader that is cut off takes a batch, and takes it for a repeat when it comes again: that
    is no reason to acknowledge it. Then it follows, and cuts it off; when it leads again the batch
    comes for the third time, and is none that it has."""
    await stage.write()
    zombie = stage.leader()
    stage.isolate(zombie)
    late = stage.quiet.client("late")
    batch = Sequences(ProducerIdAndEpoch(8, 0)).batch(T0, ["late"], stage.quiet.now_ms())
    for _ in range(2):
        late._leaders[T0] = zombie
        with pytest.raises((Refused, OSError)):
            await send_batch(late, T0, batch)
    await stage.until(lambda: stage.leader() != zombie)
    await stage.write()
    await stage.healed()
    await stage.until(lambda: stage.leader() == zombie)  # It is the preferred one.
    await late.insist(lambda: send_batch(late, T0, batch), gives_up_on=PRODUCE_FAILURES)
    stage.written.append("late")
    late.close()


async def first_back_is_not_in_sync(stage: Stage) -> None:
    """An unclean election where none is allowed: the first to come back has less than was
    acknowledged, and waits for those who have all of it."""
    await stage.write()
    behind = stage.others()[0]
    stage.kill(behind)
    await stage.until(lambda: behind not in stage.isr())
    await stage.write()
    stage.kill(*(each for each in stage.cluster.machines if each != behind))
    await asyncio.sleep(stage.cluster.rng.uniform(0, 3))
    stage.cluster.wanted[behind] = True
    await asyncio.sleep(5)
    await stage.healed()
    await stage.write()


async def coordinator_isolated(stage: Stage) -> None:
    """It is cut off from the other brokers, not from clients, and another coordinates its groups by
    now. Kafka's tells the offsets that it knows: whoever goes on from those repeats records."""
    await stage.write()
    group, member = "g", stage.quiet.client("member")
    keeper = TopicPartition(CONSUMER_OFFSETS, abs_hash(group) % 2)

    async def commit(offset: int) -> None:
        member._coordinators[GROUP, group] = stage.leader(keeper)
        await commit_offset(member, group, T0, offset)

    # Whoever looks for a coordinator makes its topic.
    await member.insist(lambda: commit_offset(member, group, T0, 1), gives_up_on=NEVER)
    isolated = stage.leader(keeper)
    stage.isolate(isolated)
    await stage.until(lambda: stage.leader(keeper) != isolated)
    await member.insist(lambda: commit(2), gives_up_on=NEVER)
    member._coordinators[GROUP, group] = isolated
    with pytest.raises((Refused, OSError)):
        await fetch_offsets(member, group, [T0])
    await stage.healed()
    member.forget_coordinators()
    told = await member.insist(lambda: fetch_offsets(member, group, [T0]), gives_up_on=NEVER)
    assert told == {T0: 2}
    member.close()


async def commit_offset(
    client: SimulatedClient, group: str, at: TopicPartition, offset: int
) -> None:
    partition = OffsetCommitRequestPartition(
        partition_index=at.partition, committed_offset=offset, committed_metadata=""
    )
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[OffsetCommitRequestTopic(name=at.topic, partitions=[partition])],
    )
    answer = await client.ask_coordinator(GROUP, group, request, OffsetCommitResponse, 9)
    check(answer.topics[0].partitions[0].error_code)


SCENARIOS = (
    zombie_leader,
    stale_controller,
    deposed_controller,
    sessions_lost_together,
    last_replica_standing,
    deletion_met_by_a_return,
    reader_sent_to_a_zombie,
    sent_again_to_a_zombie,
    first_back_is_not_in_sync,
    coordinator_isolated,
)


def play(scenario: Scenario, seed: int) -> None:
    """Afterwards every replica has what was acknowledged, and nothing else."""

    async def test(quiet: QuietCluster) -> None:
        stage = Stage(quiet)
        await scenario(stage)
        await stage.healed()
        assert await stage.read() == stage.written
        stage.client.close()
        await asyncio.sleep(1)
        for broker_id, machine in stage.cluster.machines.items():
            for log in read_replica_logs(machine.disk, broker_id, "/data", "t"):
                if log.partition == T0:
                    values = [value for batch in log.batches for _, value in batch.values]
                    assert values == stage.written, f"on broker {broker_id}"
        assert quiet.trace.problems == []

    with_quiet_cluster(test, seed=seed)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_every_replica_has_what_was_acknowledged_and_nothing_else(
    scenario: Scenario, seed: int
) -> None:
    play(scenario, seed)
