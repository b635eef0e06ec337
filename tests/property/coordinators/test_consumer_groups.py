"""Consumers come, go, vanish, come back and change their minds, while topics grow, answers are
lost, and the coordinator is moved or fails to write. What must hold all the time:

- no partition is with two members at once, counting what each was told to have and has not said
  that it gave up;
- epochs never go back;
- what is loaded from the log is what was there.

And in the end, when all that are left do what they are told: everything that is subscribed to is
with exactly one who subscribes to it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ottla.coordinators.groups.consumer.group import ConsumerGroup
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from tests.support.consumer_groups import (
    GROUP,
    REBALANCE_MS,
    ConsumerCoordinator,
    Partitions,
    embedded,
)
from tests.support.counts import count

TOPICS = ["a1", "a2", "b"]
HEARTBEAT_MS = 5_000


@dataclass
class Consumer:
    """As the clients behave: what it shall no longer have it gives up first, and then it says
    so. If it does not hear an answer, it says everything next time."""

    member_id: str
    instance_id: str | None
    topics: list[str] | None
    regex: str | None
    epoch: int = 0
    has: Partitions = field(default_factory=set)
    shall_have: Partitions = field(default_factory=set)
    must_say_all: bool = True
    is_classic: bool = False
    phase: str = "join"
    """Of a classic one, what it sends next: join, sync or heartbeat."""

    def give_up(self) -> None:
        self.has &= self.shall_have

    def hear(self, epoch: int, told: Partitions | None) -> None:
        self.epoch = epoch
        self.must_say_all = False
        if told is not None:
            self.shall_have = told
            self.has |= told

    def start_over(self) -> None:
        self.epoch = 0
        self.phase = "join"
        self.must_say_all = True
        self.has = set()
        self.shall_have = set()


class ConsumerGroups(RuleBasedStateMachine):
    consumers: list[Consumer]

    @initialize(interval_ms=st.sampled_from(["0", "1000"]))
    def begin(self, interval_ms: str) -> None:
        self.coordinator = ConsumerCoordinator(
            topics={"a1": 3, "b": 2},
            settings={
                "group.consumer.assignment.interval.ms": interval_ms,
                # Classic members stay in the consumer group when they are alone in it.
                "group.consumer.migration.policy": "upgrade",
            },
        )
        self.consumers = []
        self.created = 0
        self.seen_epochs = (0, 0)

    # -- consumers --------------------------------------------------------------------------

    @precondition(lambda self: len(self.consumers) < 5)
    @rule(
        names=st.lists(st.sampled_from(TOPICS), unique=True),
        regex=st.sampled_from([None, None, "a.*", ".*"]),
        is_static=st.booleans(),
    )
    def join(self, names: list[str], regex: str | None, is_static: bool) -> None:
        self.created += 1
        consumer = Consumer(
            f"m{self.created}",
            f"i{self.created}" if is_static else None,
            names if regex is None else None,
            regex,
        )
        self.consumers.append(consumer)
        self.beat(consumer)

    @precondition(lambda self: self.has_members() and len(self.consumers) < 5)
    @rule(names=st.lists(st.sampled_from(TOPICS), unique=True))
    def join_classic(self, names: list[str]) -> None:
        self.created += 1
        consumer = Consumer(f"m{self.created}", None, names, None, is_classic=True)
        self.consumers.append(consumer)
        self.beat(consumer)

    @precondition(lambda self: self.consumers)
    @rule(data=st.data(), says_owned=st.booleans(), is_answer_lost=st.booleans())
    def heartbeat(self, data: st.DataObject, says_owned: bool, is_answer_lost: bool) -> None:
        self.beat(
            self.pick(data),
            says_owned=says_owned,
            is_answer_lost=is_answer_lost and data.draw(st.booleans()),
        )

    @precondition(lambda self: self.consumers)
    @rule(data=st.data())
    def give_up(self, data: st.DataObject) -> None:
        self.pick(data).give_up()

    @precondition(lambda self: self.consumers)
    @rule(data=st.data(), names=st.lists(st.sampled_from(TOPICS), unique=True))
    def subscribe(self, data: st.DataObject, names: list[str]) -> None:
        consumer = self.pick(data)
        consumer.topics = names
        consumer.regex = None if consumer.regex is None else ""
        consumer.must_say_all = True
        consumer.phase = "join"

    @precondition(lambda self: self.consumers)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        consumer = self.pick(data)
        self.consumers.remove(consumer)
        if consumer.is_classic:
            if self.group() is not None:
                self.coordinator.classic_leave(consumer.member_id)
            return
        self.coordinator.error(
            self.coordinator.leave, consumer.member_id, instance_id=consumer.instance_id
        )

    @precondition(lambda self: self.consumers)
    @rule(data=st.data())
    def vanish(self, data: st.DataObject) -> None:
        self.consumers.remove(self.pick(data))

    @precondition(lambda self: self.consumers)
    @rule(data=st.data())
    def restart(self, data: st.DataObject) -> None:
        """A static one says that it will be back, and comes as another."""
        consumer = self.pick(data)
        if consumer.instance_id is not None:
            self.coordinator.error(
                self.coordinator.heartbeat,
                consumer.member_id,
                -2,
                instance_id=consumer.instance_id,
            )
            self.created += 1
            consumer.member_id = f"m{self.created}"
        consumer.start_over()

    # -- the world --------------------------------------------------------------------------

    @rule(name=st.sampled_from(TOPICS), more=st.integers(1, 3))
    def grow(self, name: str, more: int) -> None:
        topic = self.coordinator.topics.by_name(name)
        before = 0 if topic is None else topic.partition_count
        self.coordinator.change_topics({name: before + more})

    @rule(by_ms=st.sampled_from([500, HEARTBEAT_MS, 44_000]))
    def pass_time(self, by_ms: int) -> None:
        self.coordinator.timers.advance(by_ms)

    @precondition(lambda self: self.consumers)
    @rule(data=st.data())
    def fail_to_write(self, data: st.DataObject) -> None:
        self.coordinator.failure = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        self.beat(self.pick(data))
        self.coordinator.failure = None

    @rule(is_compacted=st.booleans())
    def reload(self, is_compacted: bool) -> None:
        before = self.described()
        if is_compacted:
            self.coordinator.compact()
        self.coordinator.reload()
        assert self.described() == before

    # -- what must hold ---------------------------------------------------------------------

    @invariant()
    def no_partition_is_with_two(self) -> None:
        group = self.group()
        if group is None:
            return
        members = [consumer for consumer in self.consumers if consumer.member_id in group.members]
        held = [partition for consumer in members for partition in consumer.has]
        assert len(held) == len(set(held)), held

    @invariant()
    def no_partition_is_given_to_two(self) -> None:
        group = self.group()
        if group is None:
            return
        given = [
            (topic_id, partition)
            for member in group.members.values()
            for assignment in (member.assigned, member.pending_revocation)
            for topic_id, partitions in assignment.items()
            for partition in partitions
        ]
        assert len(given) == len(set(given))

    @invariant()
    def epochs_never_go_back(self) -> None:
        group = self.group()
        if group is not None:
            now = (group.group_epoch, group.assignment_epoch)
            assert now[0] >= self.seen_epochs[0]
            assert now[1] >= self.seen_epochs[1]
            assert group.assignment_epoch <= group.group_epoch
            self.seen_epochs = now
            for member in group.members.values():
                assert member.member_epoch <= group.assignment_epoch

    def teardown(self) -> None:
        if not getattr(self, "consumers", None):
            return
        if all(consumer.is_classic for consumer in self.consumers):
            # To an empty group a classic one would come as to a classic group.
            self.consumers.insert(0, Consumer("last", None, [], None))
        for _ in range(40):
            for consumer in self.consumers:
                for _ in range(3 if consumer.is_classic else 1):
                    consumer.give_up()
                    self.beat(consumer)
            self.coordinator.timers.advance(HEARTBEAT_MS)
        group = self.group()
        assert group is not None
        assert group.members.keys() == {consumer.member_id for consumer in self.consumers}
        assert group.state_name == "Stable"
        wanted: Partitions = set()
        for consumer in self.consumers:
            mine = self.readable(consumer)
            assert consumer.has == consumer.shall_have
            assert consumer.has <= mine
            wanted |= mine
        held = [partition for consumer in self.consumers for partition in consumer.has]
        assert sorted(held) == sorted(wanted)

    # -- how ------------------------------------------------------------------------------

    def beat(
        self, consumer: Consumer, *, says_owned: bool = True, is_answer_lost: bool = False
    ) -> None:
        if consumer.is_classic:
            self.beat_classic(consumer)
            return
        says_all = consumer.must_say_all or consumer.epoch == 0
        try:
            response = self.coordinator.heartbeat(
                consumer.member_id,
                consumer.epoch,
                instance_id=consumer.instance_id,
                owned=set(consumer.has) if says_owned or says_all else None,
                rebalance_timeout_ms=REBALANCE_MS if says_all else -1,
                subscribed_topic_names=consumer.topics if says_all else None,
                subscribed_topic_regex=consumer.regex if says_all else None,
            )
        except KafkaError as error:
            self.refused(consumer, error.code)
            return
        if is_answer_lost:
            consumer.must_say_all = True
        else:
            consumer.hear(response.member_epoch, self.told(response))

    def beat_classic(self, consumer: Consumer) -> None:
        """The next request of one that speaks the classic protocol and rebalances
        cooperatively."""
        if not self.has_members():
            consumer.start_over()
            return
        coordinator = self.coordinator
        try:
            if consumer.phase == "join":
                joined = coordinator.classic_join(
                    consumer.member_id, *(consumer.topics or []), owned=set(consumer.has)
                )
                consumer.epoch, consumer.phase = joined.generation_id, "sync"
            elif consumer.phase == "sync":
                synced = coordinator.classic_sync(consumer.member_id, consumer.epoch)
                consumer.hear(consumer.epoch, embedded(synced.assignment))
                consumer.phase = "heartbeat"
            else:
                code = coordinator.classic_heartbeat(consumer.member_id, consumer.epoch)
                if code == ErrorCode.REBALANCE_IN_PROGRESS:
                    consumer.phase = "join"
        except KafkaError as error:
            if error.code == ErrorCode.REBALANCE_IN_PROGRESS:
                consumer.phase = "join"
            else:
                self.refused(consumer, error.code)

    def has_members(self) -> bool:
        group = self.group()
        return group is not None and not group.is_empty

    def refused(self, consumer: Consumer, code: ErrorCode) -> None:
        consumer.must_say_all = True
        if code in (
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.FENCED_MEMBER_EPOCH,
            ErrorCode.ILLEGAL_GENERATION,
        ):
            consumer.start_over()
        else:
            # Another who had the instance id has not left; it will, or its session ends.
            assert code in (
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                ErrorCode.UNRELEASED_INSTANCE_ID,
                ErrorCode.GROUP_ID_NOT_FOUND,
            )

    def told(self, response: ConsumerGroupHeartbeatResponse) -> Partitions | None:
        if response.assignment is None:
            return None
        return self.coordinator.named(response.assignment.topic_partitions)

    def readable(self, consumer: Consumer) -> Partitions:
        names = set(consumer.topics or [])
        if consumer.regex:
            names |= {
                name
                for name in self.coordinator.topics.names()
                if consumer.regex == ".*" or name.startswith("a")
            }
        found = (self.coordinator.topics.by_name(name) for name in names)
        return {
            (topic.name, partition)
            for topic in found
            if topic is not None
            for partition in range(topic.partition_count)
        }

    def pick(self, data: st.DataObject) -> Consumer:
        return data.draw(st.sampled_from(self.consumers), label="consumer")

    def group(self) -> ConsumerGroup | None:
        group = self.coordinator.context.groups.get(GROUP)
        assert group is None or isinstance(group, ConsumerGroup)
        return group

    def described(self) -> dict[str, object]:
        group = self.group()
        if group is None:
            return {}
        return {
            "epochs": (group.group_epoch, group.assignment_epoch, group.assignment_timestamp_ms),
            "hash": group.metadata_hash,
            "members": group.members,
            "target": {member_id: group.target_of(m) for member_id, m in group.members.items()},
            "static": group.static_member_ids,
            "regexes": group.regexes,
            "state": group.state_name,
        }


TestConsumerGroups = ConsumerGroups.TestCase
TestConsumerGroups.settings = settings(
    max_examples=count(1000), stateful_step_count=40, deadline=None
)
