"""What has gone wrong with transactions over several brokers, made to happen in order: the findings
of Jepsen's report on Bufstream (and on Kafka's protocol), and KIP-890's hanging transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from ottla.kernel.ids import ProducerIdAndEpoch, TopicPartition
from ottla.kernel.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from ottla.kernel.java import abs_hash
from ottla.testing.simulation.client import GROUP, TRANSACTION, Refused, check
from ottla.testing.simulation.reading import fetch_offsets
from ottla.testing.simulation.sending import Sequences, send_batch
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from tests.support.counts import count
from tests.support.quiet_cluster import T0, T1, QuietCluster, with_quiet_cluster
from tests.support.stage import NEVER, Stage

SEEDS = range(count(20))
ID = "copier"
KEEPER = TopicPartition(TRANSACTION_STATE, abs_hash(ID) % 2)
"""Whose leader is its coordinator."""


def keeper_of(group: str) -> TopicPartition:
    return TopicPartition(CONSUMER_OFFSETS, abs_hash(group) % 2)


Scenario = Callable[["Transactions"], Awaitable[None]]


class Transactions(Stage):
    """With a producer that writes in transactions, of version 2."""

    def __init__(self, quiet: QuietCluster) -> None:
        super().__init__(quiet)
        self.producer = ProducerIdAndEpoch(-1, -1)
        self._sequences = Sequences(self.producer)

    async def begin_anew(self) -> None:
        """Whatever was left open is aborted."""

        async def attempt() -> None:
            answer = await self.client.ask_coordinator(
                TRANSACTION,
                ID,
                InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=60_000),
                InitProducerIdResponse,
                5,
            )
            check(answer.error_code)
            self._go_on_as(answer.producer_id, answer.producer_epoch)

        await self.client.insist(attempt, gives_up_on=NEVER)

    def _go_on_as(self, producer_id: int, producer_epoch: int) -> None:
        self.producer = ProducerIdAndEpoch(producer_id, producer_epoch)
        self._sequences = Sequences(self.producer)

    async def send(self, partition: TopicPartition, value: str) -> None:
        await self.client.insist(self.sending(partition, value), gives_up_on=NEVER)

    def sending(self, partition: TopicPartition, value: str) -> Callable[[], Awaitable[object]]:
        """As often as it is called, the same batch."""
        batch = self._sequences.batch(
            partition, [value], self.quiet.now_ms(), is_transactional=True
        )
        return lambda: send_batch(self.client, partition, batch, transactional_id=ID)

    async def end(self, *, is_commit: bool) -> None:
        """Until it is answered."""
        await self.client.insist(
            lambda: self.ask_to_end(self.producer, is_commit=is_commit), gives_up_on=NEVER
        )

    async def ask_to_end(self, producer: ProducerIdAndEpoch, *, is_commit: bool) -> None:
        """Once. Raises OSError and Refused."""
        answer = await self.client.ask_coordinator(
            TRANSACTION,
            ID,
            EndTxnRequest(
                transactional_id=ID,
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                committed=is_commit,
            ),
            EndTxnResponse,
            5,
        )
        check(answer.error_code)
        self._go_on_as(answer.producer_id, answer.producer_epoch)

    async def send_offset(self, group: str, offset: int) -> None:
        """How far the group has read T0, until it is answered."""
        at = TxnOffsetCommitRequestPartition(
            partition_index=T0.partition, committed_offset=offset, committed_metadata=""
        )
        request = TxnOffsetCommitRequest(
            transactional_id=ID,
            group_id=group,
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.producer_epoch,
            topics=[TxnOffsetCommitRequestTopic(name=T0.topic, partitions=[at])],
        )

        async def attempt() -> None:
            answer = await self.client.ask_coordinator(
                GROUP, group, request, TxnOffsetCommitResponse, 5
            )
            check(answer.topics[0].partitions[0].error_code)

        await self.client.insist(attempt, gives_up_on=NEVER)

    async def both(self) -> tuple[list[str], list[str]]:
        return await self.read(T0), await self.read(T1)


async def write_loss(stage: Transactions) -> None:
    """Bufstream told a producer that its transaction was committed, and aborted it. Here the
    coordinator is cut off when it is asked: what it says must hold for the one that takes over."""
    await stage.begin_anew()
    await stage.send(T0, "a")
    await stage.send(T1, "a")
    coordinator = stage.leader(KEEPER)
    stage.isolate(coordinator)
    stage.client._coordinators[TRANSACTION, ID] = coordinator
    try:
        await stage.ask_to_end(stage.producer, is_commit=True)
        is_told = True
    except (OSError, Refused):
        is_told = False
    stage.kill(coordinator)
    await stage.healed()
    stage.client.forget_coordinators()
    await stage.begin_anew()
    found = await stage.both()
    assert found in [(["a"], ["a"])] if is_told else [(["a"], ["a"]), ([], [])]


async def aborted_read(stage: Transactions) -> None:
    """Readers of committed records were given what was aborted. Here those who have followed tell
    what was, when they lead."""
    await stage.begin_anew()
    await stage.send(T0, "aborted")
    await stage.send(T1, "aborted")
    await stage.end(is_commit=False)
    await asyncio.sleep(stage.cluster.rng.uniform(0, 2))
    await stage.send(T0, "committed")
    await stage.send(T1, "committed")
    await stage.end(is_commit=True)
    for partition in (T0, T1):
        leader = stage.leader(partition)
        stage.kill(leader)
        await stage.until(lambda: stage.cluster.leader_of(partition) not in (None, leader))  # noqa: B023
        await stage.healed()
    assert await stage.both() == (["committed"], ["committed"])


async def torn_transaction(stage: Transactions) -> None:
    """A request to commit, sent again since its answer was lost, came when the next transaction was
    half written, and committed that half."""
    await stage.begin_anew()
    first = stage.producer
    await stage.send(T0, "a")
    await stage.send(T1, "a")
    await stage.end(is_commit=True)
    second = stage.producer
    await stage.send(T0, "b")
    with pytest.raises(Refused):
        await stage.ask_to_end(first, is_commit=True)
    stage._go_on_as(*second)
    stage._sequences.batch(T0, ["b"], 0)  # As before: its next one is the second.
    await stage.send(T1, "b")
    await stage.end(is_commit=False)
    assert await stage.both() == (["a"], ["a"])


async def committed_and_left_alone(stage: Transactions) -> None:
    """The coordinator has decided, and dies before every partition has its marker. Whoever takes
    over goes on with that: else half of it is committed."""
    await stage.begin_anew()
    await stage.send(T0, "a")
    await stage.send(T1, "a")
    await asyncio.sleep(1)
    coordinator = stage.leader(KEEPER)
    slow = next(each for each in stage.cluster.machines if each != coordinator)
    for partition in (T0, T1):
        if stage.leader(partition) != coordinator:
            slow = stage.leader(partition)
    stage.cluster.pause(slow)
    await stage.end(is_commit=True)
    stage.kill(stage.leader(KEEPER))
    await stage.healed()
    assert await stage.both() == (["a"], ["a"])


async def offsets_before_their_marker(stage: Transactions) -> None:
    """KIP-447: a transaction is committed, and its marker has not come to the offsets in it.
    Whoever goes on from the offsets of before does the same again."""
    await stage.begin_anew()
    client = stage.client
    # Whoever looks for a coordinator makes its topic.
    await client.insist(lambda: fetch_offsets(client, "g", [T0]), gives_up_on=NEVER)
    coordinator = stage.leader(KEEPER)
    groups = {f"g{number}": stage.leader(keeper_of(f"g{number}")) for number in range(9)}
    group = next((each for each, leader in groups.items() if leader != coordinator), "g")
    await stage.send_offset(group, 1)
    if group in groups:
        stage.cut(coordinator, groups[group])
    ending = asyncio.create_task(stage.end(is_commit=True))
    await asyncio.wait([ending], timeout=10)
    if not ending.done():  # The cut keeps even the decision from being written.
        await stage.healed()
    await ending
    looking = asyncio.create_task(
        client.insist(lambda: fetch_offsets(client, group, [T0]), gives_up_on=NEVER)
    )
    await asyncio.sleep(stage.cluster.rng.uniform(0, 5))
    await stage.healed()
    assert await looking == {T0: 1}


async def left_open_by_a_crash(stage: Transactions) -> None:
    """A producer dies within a transaction and begins anew: what it left is aborted, and is no part
    of what it writes now."""
    await stage.begin_anew()
    await stage.send(T0, "left")
    await stage.begin_anew()
    await stage.send(T1, "written")
    await stage.end(is_commit=True)
    assert await stage.both() == ([], ["written"])


async def hanging_transaction(stage: Transactions) -> None:
    """KIP-890: a batch came after its transaction had been aborted, and began one that nobody knew
    of. Readers of committed records waited before it for ever."""
    await stage.begin_anew()
    coordinator = stage.leader(KEEPER)
    at = next((each for each in (T0, T1) if stage.leader(each) != coordinator), T0)
    late = stage.leader(at)
    await stage.client.leader_of(at)
    stage.cluster.pause(late)
    sending = asyncio.ensure_future(stage.sending(at, "late")())
    await asyncio.sleep(0.1)
    restarted = Transactions(stage.quiet)
    await restarted.begin_anew()
    stage.cluster.resume(late)
    with pytest.raises((Refused, OSError)):
        await sending
    await stage.healed()
    await restarted.send(at, "on time")
    await restarted.end(is_commit=True)
    assert await stage.read(at) == ["on time"]
    restarted.client.close()


SCENARIOS = (
    write_loss,
    aborted_read,
    torn_transaction,
    committed_and_left_alone,
    offsets_before_their_marker,
    left_open_by_a_crash,
    hanging_transaction,
)


LONGEST_S = 300
"""Clients try again for ever: a transaction that nobody ends would have no end here either."""


def play(scenario: Scenario, seed: int) -> None:
    async def test(quiet: QuietCluster) -> None:
        stage = Transactions(quiet)
        async with asyncio.timeout(LONGEST_S):
            await scenario(stage)
        await stage.healed()
        stage.client.close()
        assert quiet.trace.problems == []

    with_quiet_cluster(test, seed=seed)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_a_transaction_has_one_outcome_and_comes_to_it(scenario: Scenario, seed: int) -> None:
    play(scenario, seed)
