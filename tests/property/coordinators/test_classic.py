"""A classic group among clients that come, go, vanish and come back, while time passes, writes
fail and the coordinator is loaded anew from its log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from ottla.coordinators.groups.classic.group import ClassicGroup, ClassicState
from ottla.coordinators.groups.records import GroupMetadataValue
from ottla.coordinators.result import Deferred
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.wire.messages.describe_groups import DescribedGroup
from ottla.wire.messages.join_group import JoinGroupResponse
from ottla.wire.messages.sync_group import SyncGroupResponse
from tests.support.classic_groups import GROUP, ClassicCoordinator
from tests.support.counts import count

SUBSCRIPTIONS = (b"\0\0\0\0\0\1\0\1a", b"\0\0\0\0\0\1\0\1b")
PARTITIONS = frozenset(range(7))
SLOTS = range(4)
INITIAL_DELAY_MS = 3_000
SESSIONS_MS = (6_000, 10_000)
REBALANCES_MS = (10_000, 30_000)
WAIT_MS_MAX = max(REBALANCES_MS) + INITIAL_DELAY_MS
"""No answer takes longer: by then who is missing was given up."""

RETRIED = {
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
}


@dataclass
class Consumer:
    """What a client library does: joins, syncs, sends heartbeats, and joins again when told."""

    slot: int
    version: int
    instance_id: str | None
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: dict[str, bytes]
    member_id: str = ""
    generation_id: int = -1
    protocol_name: str | None = None
    first_life: int = 0
    """Of the coordinator when it started."""
    joining_life: int = 0
    """Of the coordinator that it asked to join."""
    joining: Deferred[JoinGroupResponse] | None = None
    syncing: Deferred[SyncGroupResponse] | None = None
    assignment: frozenset[int] | None = None
    """None while it is not sure of any."""

    @property
    def is_idle(self) -> bool:
        return self.joining is None and self.syncing is None and self.assignment is None


@dataclass
class Former:
    """What is left of a process that vanished: it may wake up and commit."""

    member_id: str
    generation_id: int
    instance_id: str | None


@dataclass
class Waiting:
    response: Deferred[JoinGroupResponse] | Deferred[SyncGroupResponse]
    since_ms: int


@dataclass
class History:
    """Of everything that clients were told."""

    owners: dict[tuple[int, int], int] = field(default_factory=dict)
    """Who was told to own a partition, by generation and partition."""
    assigners: dict[tuple[int, int], set[str]] = field(default_factory=dict)
    """Who was told to assign, by the life of the coordinator and generation: one that was not
    assigned is forgotten when the coordinator fails, and its number used again."""
    newest_assigned: int = 0


class ClassicMachine(RuleBasedStateMachine):
    @initialize(delay_ms=st.sampled_from([0, INITIAL_DELAY_MS]), seed=st.integers(0, 2**32))
    def begin(self, delay_ms: int, seed: int) -> None:
        self.coordinator = ClassicCoordinator(
            {"group.initial.rebalance.delay.ms": str(delay_ms)}, seed
        )
        self.consumers: dict[int, Consumer] = {}
        self.former: list[Former] = []
        self.waiting: list[Waiting] = []
        self.history = History()
        self.life = 0
        self.generation_seen = 0

    @property
    def group(self) -> ClassicGroup | None:
        group = self.coordinator.context.groups.get(GROUP)
        assert group is None or isinstance(group, ClassicGroup)
        return group

    # -- clients ----------------------------------------------------------------------------

    @rule(
        slot=st.sampled_from(SLOTS),
        version=st.sampled_from([0, 3, 4, 8, 9, 9]),
        is_static=st.booleans(),
        session_timeout_ms=st.sampled_from(SESSIONS_MS),
        rebalance_timeout_ms=st.sampled_from(REBALANCES_MS),
        prefers_sticky=st.booleans(),
    )
    def start(
        self,
        slot: int,
        version: int,
        is_static: bool,
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
        prefers_sticky: bool,
    ) -> None:
        """A process begins, perhaps in the place of one that was killed."""
        self._vanish(slot)
        # All know both: of a loaded member only the protocol is known that the group had.
        names = ["sticky", "range"] if prefers_sticky else ["range", "sticky"]
        consumer = Consumer(
            slot,
            max(version, 5) if is_static else version,
            f"instance-{slot}" if is_static else None,
            session_timeout_ms,
            rebalance_timeout_ms if version > 0 else session_timeout_ms,
            dict.fromkeys(names, SUBSCRIPTIONS[0]),
            first_life=self.life,
        )
        self.consumers[slot] = consumer
        self._join(consumer)

    @rule(slot=st.sampled_from(SLOTS))
    def vanish(self, slot: int) -> None:
        self._vanish(slot)

    def _vanish(self, slot: int) -> None:
        consumer = self.consumers.pop(slot, None)
        if consumer is not None and consumer.member_id:
            self.former.append(
                Former(consumer.member_id, consumer.generation_id, consumer.instance_id)
            )

    @rule(slot=st.sampled_from(SLOTS))
    def leave(self, slot: int) -> None:
        consumer = self.consumers.pop(slot, None)
        if consumer is None or not consumer.member_id:
            return
        try:
            self.coordinator.leave(consumer.member_id)
        except KafkaError:
            assert self.coordinator.failure is not None

    @rule(slot=st.sampled_from(SLOTS), metadata=st.sampled_from(SUBSCRIPTIONS))
    def rejoin(self, slot: int, metadata: bytes) -> None:
        """Its subscription changed, or its poll was late."""
        consumer = self.consumers.get(slot)
        if consumer is not None and consumer.member_id:
            consumer.protocols = dict.fromkeys(consumer.protocols, metadata)
            self._join(consumer)

    @rule(slot=st.sampled_from(SLOTS))
    def step(self, slot: int) -> None:
        if slot in self.consumers:
            self._step(self.consumers[slot])

    @rule(slot=st.sampled_from(SLOTS))
    def commit(self, slot: int) -> None:
        consumer = self.consumers.get(slot)
        group = self.group
        if consumer is None or group is None or not consumer.member_id:
            return
        error = self.coordinator.commit(
            consumer.member_id, consumer.generation_id, consumer.instance_id
        )
        self._check_commit(error, consumer.member_id, consumer.generation_id)
        if (
            group.state is ClassicState.STABLE
            and consumer.assignment is not None
            and consumer.generation_id == group.generation_id
            and consumer.member_id in group.members
        ):
            assert error == "NONE"

    @precondition(lambda self: self.former)
    @rule(data=st.data())
    def commit_of_a_process_that_was_replaced(self, data: st.DataObject) -> None:
        former = data.draw(st.sampled_from(self.former))
        if self.group is not None:
            error = self.coordinator.commit(
                former.member_id, former.generation_id, former.instance_id
            )
            self._check_commit(error, former.member_id, former.generation_id)

    def _check_commit(self, error: str, member_id: str, generation_id: int) -> None:
        group = self.coordinator.group
        if error != "NONE":
            return
        if generation_id < 0:
            assert group.is_empty
            return
        assert generation_id == group.generation_id
        assert generation_id >= self.history.newest_assigned
        assert member_id in group.members

    # -- the world --------------------------------------------------------------------------

    @rule(by_ms=st.sampled_from([1, 1_000, 5_000, 12_000, 40_000]))
    def silence(self, by_ms: int) -> None:
        self.coordinator.timers.advance(by_ms)

    @rule(by_s=st.integers(1, 15))
    def time_passes(self, by_s: int) -> None:
        for _ in range(by_s):
            self._live_a_second()

    def _live_a_second(self) -> None:
        self.coordinator.timers.advance(1_000)
        for consumer in list(self.consumers.values()):
            self._step(consumer)

    @rule()
    def reload(self) -> None:
        group = self.group
        before = None
        if group is not None and group.state is ClassicState.STABLE:
            before = self._described(group)
        self.coordinator.reload()
        self.life += 1
        loaded = self.group
        if before is not None:
            assert loaded is not None
            assert self._described(loaded) == before
        assert all(waiting.response.is_resolved for waiting in self.waiting)
        self.generation_seen = 0 if loaded is None else loaded.generation_id

    def _described(self, group: ClassicGroup) -> tuple[int, str | None, DescribedGroup]:
        described = self.coordinator.protocol.describe(group)
        described.members.sort(key=lambda member: member.member_id)
        return group.generation_id, group.leader_id, described

    @rule(is_failing=st.booleans())
    def writes_fail(self, is_failing: bool) -> None:
        error = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        self.coordinator.failure = error if is_failing else None

    @rule()
    def settle(self) -> None:
        """With nothing in the way, those who live own everything in the end."""
        self.coordinator.failure = None
        for _ in range(150):
            self._live_a_second()
            if self._is_settled():
                break
        assert self._is_settled()

    def _is_settled(self) -> bool:
        group = self.group
        if not self.consumers:
            return group is None or (group.is_empty and not group.pending_members)
        if group is None or group.state is not ClassicState.STABLE:
            return False
        consumers = self.consumers.values()
        owned = [
            partition
            for consumer in consumers
            if consumer.generation_id == group.generation_id
            for partition in consumer.assignment or ()
        ]
        return (
            set(group.members) == {consumer.member_id for consumer in consumers}
            and sorted(owned) == sorted(PARTITIONS)
            and all(consumer.assignment is not None for consumer in consumers)
        )

    # -- what a client does with its answers ------------------------------------------------

    def _join(self, consumer: Consumer) -> None:
        consumer.assignment = consumer.syncing = consumer.joining = None
        consumer.joining_life = self.life
        try:
            consumer.joining = self.coordinator.join(
                consumer.member_id,
                version=consumer.version,
                client_id=f"client-{consumer.slot}",
                group_instance_id=consumer.instance_id,
                session_timeout_ms=consumer.session_timeout_ms,
                rebalance_timeout_ms=consumer.rebalance_timeout_ms,
                protocols=consumer.protocols,
            )
        except KafkaError:
            assert self.coordinator.failure is not None
            return
        self._wait_for(consumer.joining)

    def _wait_for(
        self, response: Deferred[JoinGroupResponse] | Deferred[SyncGroupResponse]
    ) -> None:
        self.waiting.append(Waiting(response, self.coordinator.timers.now_ms()))

    def _step(self, consumer: Consumer) -> None:
        if consumer.is_idle:
            self._join(consumer)
        elif consumer.joining is not None:
            if consumer.joining.is_resolved:
                self._joined(consumer, consumer.joining.value)
        elif consumer.syncing is not None:
            if consumer.syncing.is_resolved:
                self._synced(consumer, consumer.syncing.value)
        else:
            fields = {"group_instance_id": consumer.instance_id}
            self._hear(
                consumer,
                self.coordinator.heartbeat(consumer.member_id, consumer.generation_id, **fields),
                lambda: None,
            )

    def _hear(self, consumer: Consumer, code: int, go_on: Callable[[], None]) -> None:
        if code == ErrorCode.NONE:
            go_on()
        elif code == ErrorCode.UNKNOWN_MEMBER_ID:
            consumer.member_id = ""
            self._join(consumer)
        elif code == ErrorCode.FENCED_INSTANCE_ID:
            # Nobody else has its instance id. But a coordinator that failed in the middle of a
            # rebalance has forgotten it, and knows the process before it: as in Kafka, it dies
            # and is started again.
            assert consumer.first_life < self.life
            consumer.member_id = ""
            consumer.first_life = self.life
            self._join(consumer)
        else:
            assert code in RETRIED, ErrorCode(code).name
            self._join(consumer)

    def _joined(self, consumer: Consumer, response: JoinGroupResponse) -> None:
        consumer.joining = None
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            assert consumer.version >= 4
            consumer.member_id = response.member_id
            self._join(consumer)
            return
        self._hear(consumer, response.error_code, lambda: self._sync(consumer, response))

    def _sync(self, consumer: Consumer, response: JoinGroupResponse) -> None:
        consumer.member_id = response.member_id
        consumer.generation_id = response.generation_id
        consumer.protocol_name = response.protocol_name
        assignments: dict[str, bytes] = {}
        if response.leader == response.member_id and not response.skip_assignment:
            key = (consumer.joining_life, response.generation_id)
            self.history.assigners.setdefault(key, set()).add(response.member_id)
            ids = sorted(member.member_id for member in response.members)
            assignments = {
                member_id: bytes(sorted(PARTITIONS)[number :: len(ids)])
                for number, member_id in enumerate(ids)
            }
        consumer.syncing = self.coordinator.sync(
            consumer.member_id,
            consumer.generation_id,
            assignments,
            group_instance_id=consumer.instance_id,
            protocol_name=consumer.protocol_name,
        )
        self._wait_for(consumer.syncing)

    def _synced(self, consumer: Consumer, response: SyncGroupResponse) -> None:
        consumer.syncing = None
        self._hear(consumer, response.error_code, lambda: self._own(consumer, response))

    def _own(self, consumer: Consumer, response: SyncGroupResponse) -> None:
        consumer.assignment = frozenset(response.assignment)
        for partition in consumer.assignment:
            at = (consumer.generation_id, partition)
            owner = self.history.owners.setdefault(at, consumer.slot)
            assert owner == consumer.slot, f"{at} is owned by {owner} and {consumer.slot}"

    # -- what always holds ------------------------------------------------------------------

    @invariant()
    def every_answer_comes_in_time(self) -> None:
        self.waiting = [each for each in self.waiting if not each.response.is_resolved]
        now_ms = self.coordinator.timers.now_ms()
        assert all(now_ms - each.since_ms <= WAIT_MS_MAX for each in self.waiting)

    @invariant()
    def the_leader_is_one_of_the_members(self) -> None:
        group = self.group
        if group is not None:
            assert (group.leader_id is None) == (not group.members)
            assert group.leader_id is None or group.leader_id in group.members
        assert all(len(ids) == 1 for ids in self.history.assigners.values())

    @invariant()
    def generations_never_go_back(self) -> None:
        records = self.coordinator.records
        written = records[-1].value if records else None
        assert written is None or isinstance(written, GroupMetadataValue)
        if self.group is not None:
            assert self.group.generation_id >= self.generation_seen
            self.generation_seen = self.group.generation_id
            if written is not None:
                assert self.group.generation_id >= written.generation
        if written is not None and written.members:
            assert written.generation >= self.history.newest_assigned
            self.history.newest_assigned = written.generation

    @invariant()
    def a_stable_group_owns_everything_once(self) -> None:
        group = self.group
        if group is not None and group.state is ClassicState.STABLE:
            owned = [
                partition for member in group.members.values() for partition in member.assignment
            ]
            assert sorted(owned) == sorted(PARTITIONS)

    @invariant()
    def an_empty_group_has_no_members(self) -> None:
        group = self.group
        if group is not None:
            assert group.is_empty <= (not group.members)
            assert group.awaiting_join_count == sum(
                member.join_waiting is not None for member in group.members.values()
            )

    def teardown(self) -> None:
        if hasattr(self, "coordinator"):
            self.settle()


TestClassicGroup = ClassicMachine.TestCase
TestClassicGroup.settings = settings(
    max_examples=count(600, 60), stateful_step_count=40, deadline=None
)
