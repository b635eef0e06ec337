"""Controllers come and go, brokers and sessions fail, and nothing that was acknowledged is lost.

The controllers are real, on a store in memory. Brokers are models: a log is a list, followers copy
their leader's, and a leader acknowledges what all of its ISR have, by the rules of replication:
both sets while an AlterPartition is open, nothing below `min.insync.replicas`.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

import pytest

from ottla.controller import broker_changes, leader_selectors, unclean_recovery
from ottla.controller.change_plan import ChangePlan
from ottla.controller.leader_elections import ElectionType
from ottla.controller.leader_selectors import Candidates, Elected
from ottla.controller.topic_planning import NewTopic
from ottla.controller.unclean_recovery import LogEnd
from ottla.coordination import znodes
from ottla.coordination.store import SessionState, StoreError
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import BrokerId, TopicId, TopicPartition
from ottla.testing.loop import VirtualLoop, run_virtual
from ottla.wire.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)
from ottla.wire.messages.controlled_shutdown import ControlledShutdownRequest
from ottla.wire.messages.leader_and_isr import LeaderAndIsrPartitionState, LeaderAndIsrRequest
from tests.support.counts import count
from tests.unit.controller.brokers import ScriptedBroker, SimulatedCluster

SETTINGS = {"min.insync.replicas": "2", "leader.imbalance.check.interval.seconds": "30"}
BROKERS = (1, 2, 3, 4)
STEPS = 150

Record = tuple[int, int]
"""(leader epoch, number)"""


class ModelBroker(ScriptedBroker):
    """With logs, which outlive a crash."""

    def __init__(self, cluster: World, broker_id: int) -> None:
        super().__init__(cluster, broker_id)
        self.world = cluster
        self.logs: dict[TopicPartition, list[Record]] = {}
        self.proposals: dict[TopicPartition, set[int]] = {}
        self.lane = asyncio.Lock()
        """It starts, ends and registers one after another."""

    def changed(self, topic_id: TopicId, each: TopicPartition, is_new_epoch: bool) -> None:
        state = self.replicas[each]
        self.proposals.pop(each, None)
        log = self.logs.setdefault(each, [])
        if not is_new_epoch or state.leader == -1:
            return
        key = (topic_id, each.partition, state.leader_epoch)
        leader = self.world.leaders.setdefault(key, state.leader)
        if leader != state.leader:
            self.world.violations.append(f"{each}: two leaders in epoch {state.leader_epoch}")
        if state.leader == self.id:
            missing = self.world.acknowledged.get((topic_id, each.partition), set()).difference(log)
            if missing:
                self.world.violations.append(f"{self.id} leads {each} without {sorted(missing)}")

    def _lead_or_follow(self, request: LeaderAndIsrRequest) -> Any:
        before = dict(self.replicas)
        response = super()._lead_or_follow(request)
        for topic in request.topic_states:
            self.world.topic_ids[topic.topic_name] = topic.topic_id
            for state in topic.partition_states:
                each = TopicPartition(topic.topic_name, state.partition_index)
                old = before.get(each)
                if old is None or state.partition_epoch > old.partition_epoch:
                    is_new_epoch = old is None or state.leader_epoch > old.leader_epoch
                    self.changed(topic.topic_id, each, is_new_epoch)
        return response

    def forget(self, each: TopicPartition) -> None:
        self.logs.pop(each, None)
        self.proposals.pop(each, None)


class World(SimulatedCluster):
    """One run, from a seed."""

    def __init__(self, loop: VirtualLoop, rng: random.Random) -> None:
        super().__init__(loop, SETTINGS)
        self.rng = rng
        self.models: dict[int, ModelBroker] = {}
        self.acknowledged: dict[tuple[TopicId, int], set[Record]] = {}
        self.leaders: dict[tuple[TopicId, int, int], int] = {}
        self.topic_ids: dict[str, TopicId] = {}
        self.record_count = 0
        self.has_lost_a_tail = False
        self.violations: list[str] = []
        self.tasks: set[asyncio.Task[None]] = set()

    def make_broker(self, broker_id: int) -> ScriptedBroker:
        self.models[broker_id] = ModelBroker(self, broker_id)
        return self.models[broker_id]

    async def ask_log_ends(
        self, broker_id: BrokerId, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, LogEnd]:
        await super().ask_log_ends(broker_id, partitions)
        logs = self.models[broker_id].logs
        return {
            each: LogEnd(logs[each][-1][0] if logs[each] else -1, len(logs[each]))
            for each in partitions
            if each in logs
        }

    # -- what can happen ------------------------------------------------------------------

    def running(self) -> list[ModelBroker]:
        return [each for each in self.models.values() if each.is_running]

    def led(self) -> tuple[ModelBroker, TopicPartition, LeaderAndIsrPartitionState] | None:
        """Some partition that some broker believes it leads."""
        found = [
            (broker, each, state)
            for broker in self.running()
            for each, state in broker.replicas.items()
            if state.leader == broker.id
        ]
        return self.rng.choice(found) if found else None

    def follows(self, follower: int, leader: ModelBroker, each: TopicPartition) -> bool:
        broker = self.models[follower]
        return (
            broker.is_running
            and each in broker.replicas
            and broker.replicas[each].leader_epoch == leader.replicas[each].leader_epoch
        )

    async def produce(self) -> None:
        if (found := self.led()) is None:
            return
        leader, each, state = found
        self.record_count += 1
        record = (state.leader_epoch, self.record_count)
        leader.logs[each].append(record)
        members = set(state.isr) | leader.proposals.get(each, set())
        others = members - {leader.id}
        if len(state.isr) < 2 or not all(self.follows(other, leader, each) for other in others):
            return
        for other in others:
            self.models[other].logs[each] = list(leader.logs[each])
        key = (self.topic_ids[each.topic], each.partition)
        self.acknowledged.setdefault(key, set()).update(leader.logs[each])

    async def fetch(self) -> None:
        if (found := self.led()) is not None:
            leader, each, state = found
            for other in state.replicas:
                if other != leader.id and self.follows(other, leader, each):
                    self.models[other].logs[each] = list(leader.logs[each])

    async def change_isr(self) -> None:
        found = self.led()
        controllers = [each for each in self.running() if each.controller.is_active]
        if found is None or not controllers or found[1] in found[0].proposals:
            return
        leader, each, state = found
        isr = {
            other
            for other in state.replicas
            if other == leader.id
            or (
                self.follows(other, leader, each)
                and self.models[other].logs[each] == leader.logs[each]
                and self.rng.random() < 0.9
            )
        }
        if isr == set(state.isr):
            return
        leader.proposals[each] = isr
        data = PartitionData(
            partition_index=each.partition,
            leader_epoch=state.leader_epoch,
            partition_epoch=state.partition_epoch,
            new_isr_with_epochs=[
                BrokerState(broker_id=other, broker_epoch=self.models[other].epoch) for other in isr
            ],
        )
        request = AlterPartitionRequest(
            broker_id=leader.id,
            broker_epoch=leader.epoch,
            topics=[TopicData(topic_id=self.topic_ids[each.topic], partitions=[data])],
        )
        answer = await controllers[0].controller.alter_partition(request, 3)
        self.answered(leader, each, state, isr, answer)

    def answered(
        self,
        leader: ModelBroker,
        each: TopicPartition,
        state: LeaderAndIsrPartitionState,
        isr: set[int],
        answer: Any,
    ) -> None:
        if leader.replicas.get(each) is not state or leader.proposals.get(each) is not isr:
            return  # It was told otherwise meanwhile.
        if answer.error_code:
            return  # Nobody knows: both sets count until it is told.
        (result,) = answer.topics[0].partitions
        if result.error_code == ErrorCode.NONE:
            state.isr, state.partition_epoch = result.isr, result.partition_epoch
            del leader.proposals[each]
        elif result.error_code != ErrorCode.INVALID_UPDATE_VERSION:
            del leader.proposals[each]

    async def crash(self) -> None:
        if broker := self.pick(self.running()):
            await self.end(broker)

    async def end(self, broker: ModelBroker) -> None:
        async with broker.lane:
            if broker.is_running:
                await broker.crash()
                broker.proposals.clear()

    async def restart(self) -> None:
        down = [each for each in self.models.values() if not each.is_running]
        broker = self.pick(down)
        if broker is None:
            return
        async with broker.lane:
            if not broker.is_running:
                await self.start_again(broker)

    async def start_again(self, broker: ModelBroker) -> None:
        loses_tail = not self.has_lost_a_tail and self.rng.random() < 0.6
        if loses_tail:
            self.has_lost_a_tail = True
            for log in broker.logs.values():
                del log[self.rng.randint(0, len(log)) :]
        try:
            await broker.restart(has_lost_tail=loses_tail)
        except StoreError:  # It was cut off from the store again.
            await broker.crash()

    async def expire(self) -> None:
        if broker := self.pick(self.running()):
            if broker.store._state is SessionState.CONNECTED:
                self.ensemble.expire(broker.store)
            await asyncio.sleep(self.rng.uniform(0, 3))
            await self.renew(broker)

    async def renew(self, broker: ModelBroker) -> None:
        async with broker.lane:
            if broker.is_running and broker.store._state is SessionState.EXPIRED:
                with suppress(StoreError):
                    await broker.store.open()
                    await broker.register()

    async def cut_off(self) -> None:
        if broker := self.pick(self.running()):
            if broker.store._state is not SessionState.CONNECTED:
                return
            self.ensemble.disconnect(broker.store)
            await asyncio.sleep(self.rng.uniform(0, 2))
            self.reconnect(broker)

    def reconnect(self, broker: ModelBroker) -> None:
        if broker.store._state is SessionState.SUSPENDED:
            self.ensemble.reconnect(broker.store)

    async def lose_answer(self) -> None:
        if broker := self.pick(self.running()):
            self.ensemble.lose_next_answer(broker.store)

    async def depose(self) -> None:
        with suppress(StoreError):
            await self.observer.delete(znodes.CONTROLLER)

    async def shut_down(self) -> None:
        broker = self.pick(self.running())
        controllers = [each for each in self.running() if each.controller.is_active]
        if broker is None or not controllers:
            return
        request = ControlledShutdownRequest(broker_id=broker.id, broker_epoch=broker.epoch)
        await controllers[0].controller.controlled_shutdown(request)
        await self.end(broker)

    async def administer(self) -> None:
        broker = self.pick(self.running())
        if broker is None:
            return
        controller, rng = broker.controller, self.rng
        topic = f"t{rng.randrange(3)}"
        each = TopicPartition(topic, rng.randrange(2))
        match rng.randrange(6):
            case 0 | 1:
                await controller.topics.create(NewTopic(topic, 2, 3))
            case 2:
                await controller.topics.delete(topic, timeout_s=1)
            case 3:
                await controller.alter_reassignments({each: rng.sample(BROKERS, 3)})
            case 4:
                await controller.alter_reassignments({each: None})
            case _:
                await controller.elect_leaders(ElectionType.PREFERRED, None)

    def pick(self, brokers: list[ModelBroker]) -> ModelBroker | None:
        return self.rng.choice(brokers) if brokers else None

    # -- a run ----------------------------------------------------------------------------

    async def run(self) -> None:
        await self.start(BROKERS)
        often: list[Callable[[], Awaitable[None]]] = [self.produce] * 6
        often += [self.fetch, self.change_isr] * 3
        often += [self.administer, self.restart] * 2
        rarely = [self.crash, self.expire, self.cut_off, self.lose_answer, self.depose]
        for _ in range(STEPS):
            self.begin(self.rng.choice([*often, *rarely, self.shut_down]))
            await asyncio.sleep(self.rng.uniform(0, 0.5))
        await self.heal()
        assert not self.violations
        await self.check()
        await self.check_logs()
        await self.stop()

    def begin(self, action: Callable[[], Awaitable[None]]) -> None:
        async def act() -> None:
            with suppress(KafkaError):
                await action()

        task = asyncio.get_running_loop().create_task(act())
        self.tasks.add(task)

    async def heal(self) -> None:
        await asyncio.sleep(60)
        for task in self.tasks:
            if task.done() and not task.cancelled():
                task.result()
            else:
                task.cancel()
        for broker in self.models.values():
            broker.store._is_answer_lost = False
            self.reconnect(broker)
            await self.renew(broker)
            if not broker.is_running:
                await broker.restart()
        for _ in range(20):
            await asyncio.sleep(5)
            await self.fetch()

    async def check_logs(self) -> None:
        active = self.active.controller._active
        assert active is not None
        assert not active.context.topics_to_delete, "every replica could be asked"
        for each, (state, _) in active.context.committed.items():
            assert state.leader in self.models, f"{each} has no leader: {state}"
            key = (active.context.topics[each.topic].id, each.partition)
            missing = self.acknowledged.get(key, set()).difference(
                self.models[state.leader].logs[each]
            )
            assert not missing, f"{each} has lost {sorted(missing)}"


def run_seed(seed: int) -> None:
    rng = random.Random(seed)
    run_virtual(lambda loop: World(loop, rng).run(), rng=random.Random(seed))


@pytest.mark.parametrize("seed", range(count(300, quick=12)))
def test_nothing_acknowledged_is_lost_whoever_is_controller(seed: int) -> None:
    run_seed(seed)


MUTANTS_SEEDS = 300


async def do_nothing(*_: object) -> None:
    pass


def keep_all_eligible(
    plan: ChangePlan, each: TopicPartition, state: znodes.LeaderAndIsr, isr: Sequence[int]
) -> tuple[int, ...]:
    return tuple(sorted({*state.isr, *state.eligible_leader_replicas}.difference(isr)))


def elect_anybody(candidates: Candidates, *, allows_unclean: bool) -> Elected | None:
    return leader_selectors.offline(candidates, allows_unclean=True)


@pytest.mark.parametrize(
    ("owner", "name", "mutant"),
    [
        (unclean_recovery, "plan_loss_of_tails", do_nothing),
        (ChangePlan, "eligible", keep_all_eligible),
        (broker_changes, "offline", elect_anybody),
    ],
)
def test_what_would_lose_records_is_found(
    owner: object, name: str, mutant: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, name, mutant)
    for seed in range(MUTANTS_SEEDS):
        try:
            run_seed(seed)
        except AssertionError:
            return
    pytest.fail(f"no seed below {MUTANTS_SEEDS} finds it")
