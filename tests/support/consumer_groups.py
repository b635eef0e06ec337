"""A coordinator of groups of both protocols without a runtime: records go to a list, and time is
moved by hand. `reload` is what a crash of the broker leaves."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from ottla.config.broker import BrokerConfig
from ottla.coordinators.groups.classic.group import ClassicGroup
from ottla.coordinators.groups.classic.protocol import ClassicProtocol
from ottla.coordinators.groups.consumer.group import ConsumerGroup
from ottla.coordinators.groups.consumer.protocol import ConsumerProtocol
from ottla.coordinators.groups.context import Client, GroupContext, TopicInfo
from ottla.coordinators.groups.records import RECORD_TYPES, GroupMetadataKey, GroupMetadataValue
from ottla.coordinators.record import CoordinatorRecord, decode_record, encode_record
from ottla.coordinators.result import Deferred, Planned, Result
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import TopicId
from ottla.wire.messages.consumer_group_describe import DescribedGroup
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from ottla.wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    decode_embedded,
    encode_embedded,
)
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from ottla.wire.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from tests.support.group_timers import ManualTimers
from tests.support.planned import planned

T = TypeVar("T")

GROUP = "group"
REBALANCE_MS = 60_000
CLASSIC_SESSION_MS = 10_000

NO_PAUSE = {"group.consumer.assignment.interval.ms": "0"}
"""Every change of a group is assigned at once."""

Partitions = set[tuple[str, int]]
"""Topics by name: tests are read by people."""


class Topics:
    """What the cluster has; changed by the test."""

    def __init__(self, counts: Mapping[str, int]) -> None:
        self._topics: dict[str, TopicInfo] = {}
        self._last_id = 0
        for name, partition_count in counts.items():
            self.put(name, partition_count)

    def put(self, name: str, partition_count: int) -> TopicId:
        there = self._topics.get(name)
        if there is None:
            self._last_id += 1
            topic_id = TopicId(self._last_id.to_bytes(16, "big"))
        else:
            topic_id = there.id
        self._topics[name] = TopicInfo(topic_id, name, partition_count)
        return topic_id

    def remove(self, name: str) -> None:
        del self._topics[name]

    def by_name(self, name: str) -> TopicInfo | None:
        return self._topics.get(name)

    def by_id(self, topic_id: TopicId) -> TopicInfo | None:
        return next((topic for topic in self._topics.values() if topic.id == topic_id), None)

    def names(self) -> list[str]:
        return list(self._topics)


class ConsumerCoordinator:
    """Made by a test."""

    def __init__(
        self,
        topics: Mapping[str, int] | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.config = BrokerConfig({**NO_PAUSE, **(settings or {})})
        self.topics = Topics({"t": 4} if topics is None else topics)
        self.log: list[tuple[bytes, bytes | None]] = []
        self.failure: KafkaError | None = None
        """What the next writes fail with."""
        self.overrides: dict[str, str] = {}
        """The settings that the group has for itself."""
        self._rng = random.Random(0)
        self.timers = ManualTimers(self._run_timer)
        self._begin()

    def _begin(self) -> None:
        self.context = GroupContext(
            timers=self.timers,
            config=lambda: self.config,
            now_ms=self.timers.now_ms,
            rng=self._rng,
            topics=self.topics,
            overrides_of=lambda group_id: self.overrides if group_id == GROUP else {},
        )
        self.classic = ClassicProtocol(self.context)
        self.protocol = ConsumerProtocol(self.context)
        for key, value in self.log:
            self._replay(key, value)
        self.classic.loaded()
        self.protocol.loaded()

    def reload(self) -> None:
        """The shard is closed, and loaded from its log."""
        self.timers.cancel_all()
        self.classic.unloaded()
        self.protocol.unloaded()
        self._begin()

    def compact(self) -> None:
        """Of each key the newest record stays, where it is."""
        newest = {key: place for place, (key, _) in enumerate(self.log)}
        self.log = [
            (key, value)
            for place, (key, value) in enumerate(self.log)
            if newest[key] == place and value is not None
        ]

    def change_topics(self, counts: Mapping[str, int]) -> None:
        """Creates, grows, or with 0 deletes."""
        for name, partition_count in counts.items():
            if partition_count:
                self.topics.put(name, partition_count)
            else:
                self.topics.remove(name)
        self.protocol.topics_changed(counts)

    # -- what the runtime does --------------------------------------------------------------

    def write(self, operation: Planned[T]) -> T | Deferred[T]:
        result = planned(operation)
        if result.records and self.failure is not None:
            if result.on_failed is not None:
                result.on_failed(self.failure)
            raise self.failure
        written = [encode_record(record) for record in result.records]
        self.log += written
        for key, value in written:
            self._replay(key, value)
        return result.response

    def _answer(self, result: Planned[T]) -> T:
        response = self.write(result)
        return response.value if isinstance(response, Deferred) else response

    def _replay(self, key: bytes, value: bytes | None) -> None:
        record = decode_record(RECORD_TYPES, key, value)
        assert record is not None
        if isinstance(record.key, GroupMetadataKey):
            assert record.value is None or isinstance(record.value, GroupMetadataValue)
            self.classic.replay_group(record.key, record.value)
        else:
            assert self.protocol.replay(record)

    def _run_timer(self, operation: Callable[[], Result[Any]]) -> None:
        try:
            self.write(operation())
        except KafkaError:
            self.timers.schedule("retry", 500, operation)

    @property
    def records(self) -> list[CoordinatorRecord]:
        decoded = [decode_record(RECORD_TYPES, key, value) for key, value in self.log]
        return [record for record in decoded if record is not None]

    # -- groups -----------------------------------------------------------------------------

    @property
    def group(self) -> ConsumerGroup:
        group = self.context.groups[GROUP]
        assert isinstance(group, ConsumerGroup)
        return group

    @property
    def classic_group(self) -> ClassicGroup:
        group = self.context.groups[GROUP]
        assert isinstance(group, ClassicGroup)
        return group

    def describe(self) -> DescribedGroup:
        return self.protocol.describe(self.group)

    def assigned(self, member_id: str) -> Partitions:
        return self.named(
            TopicPartitions(topic_id=topic_id, partitions=list(partitions))
            for topic_id, partitions in self.group.members[member_id].assigned.items()
        )

    def named(self, listed: Any) -> Partitions:
        found: Partitions = set()
        for topic in listed:
            info = self.topics.by_id(topic.topic_id)
            assert info is not None
            found |= {(info.name, partition) for partition in topic.partitions}
        return found

    def listed(self, partitions: Partitions) -> list[TopicPartitions]:
        by_topic: dict[str, list[int]] = {}
        for name, partition in sorted(partitions):
            by_topic.setdefault(name, []).append(partition)
        listed = []
        for name, numbers in by_topic.items():
            topic = self.topics.by_name(name)
            assert topic is not None
            listed.append(TopicPartitions(topic_id=topic.id, partitions=numbers))
        return listed

    # -- the consumer protocol --------------------------------------------------------------

    def heartbeat(
        self, member_id: str, member_epoch: int, **fields: Any
    ) -> ConsumerGroupHeartbeatResponse:
        """`version`, `client`, `owned` and what ConsumerGroupHeartbeat has."""
        client = Client(fields.pop("client", "client"), "/10.0.0.1", fields.pop("version", 1))
        owned = fields.pop("owned", None)
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=member_id,
            member_epoch=member_epoch,
            topic_partitions=None if owned is None else self.listed(owned),
            **fields,
        )
        return self._answer(self.protocol.heartbeat(request, client))

    def join(self, member_id: str, *topics: str, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        return self.heartbeat(
            member_id,
            0,
            **{
                "owned": set(),
                "rebalance_timeout_ms": REBALANCE_MS,
                "subscribed_topic_names": None if "subscribed_topic_regex" in fields else topics,
                **fields,
            },
        )

    def leave(self, member_id: str, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        return self.heartbeat(member_id, -1, **fields)

    def error(self, call: Callable[..., Any], *arguments: Any, **fields: Any) -> ErrorCode:
        try:
            call(*arguments, **fields)
        except KafkaError as error:
            return error.code
        return ErrorCode.NONE

    # -- the classic protocol ---------------------------------------------------------------

    def classic_join(self, member_id: str, *topics: str, **fields: Any) -> JoinGroupResponse:
        """Answered at once in a consumer group; `join_waiting` is for classic ones."""
        response = self.classic_join_waiting(member_id, *topics, **fields)
        return response.value if isinstance(response, Deferred) else response

    def classic_join_waiting(
        self, member_id: str, *topics: str, **fields: Any
    ) -> JoinGroupResponse | Deferred[JoinGroupResponse]:
        version = fields.pop("version", 9)
        owned: Partitions = fields.pop("owned", set())
        subscription = ConsumerProtocolSubscription(
            topics=list(topics), owned_partitions=_by_name(owned)
        )
        metadata = fields.pop("metadata", encode_embedded(subscription, 3))
        request = JoinGroupRequest(
            group_id=GROUP,
            member_id=member_id,
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=metadata)
                for name in fields.pop("protocols", ["cooperative-sticky"])
            ],
            **{
                "protocol_type": "consumer",
                "session_timeout_ms": CLASSIC_SESSION_MS,
                "rebalance_timeout_ms": REBALANCE_MS,
                **fields,
            },
        )
        client = Client("classic", "/10.0.0.2", version)
        group = self.context.groups.get(GROUP)
        if isinstance(group, ConsumerGroup) and not group.is_empty:
            return self.write(self.protocol.classic.join(group, request, client))
        tombstones = self.protocol.delete(group) if isinstance(group, ConsumerGroup) else ()
        return self.write(self.classic.join(request, client, tombstones))

    def classic_sync(
        self,
        member_id: str,
        generation_id: int,
        assignments: Mapping[str, Partitions] | None = None,
        **fields: Any,
    ) -> SyncGroupResponse:
        request = SyncGroupRequest(
            group_id=GROUP,
            member_id=member_id,
            generation_id=generation_id,
            assignments=[
                SyncGroupRequestAssignment(
                    member_id=to,
                    assignment=encode_embedded(
                        ConsumerProtocolAssignment(assigned_partitions=_by_name(partitions)), 3
                    ),
                )
                for to, partitions in (assignments or {}).items()
            ],
            **{"protocol_type": "consumer", "protocol_name": "cooperative-sticky", **fields},
        )
        client = Client("classic", "/10.0.0.2", 5)
        group = self.context.groups.get(GROUP)
        if isinstance(group, ConsumerGroup):
            return self._answer(self.protocol.classic.sync(group, request, client))
        return self._answer(self.classic.sync(request, client))

    def classic_heartbeat(self, member_id: str, generation_id: int, **fields: Any) -> ErrorCode:
        request = HeartbeatRequest(
            group_id=GROUP, member_id=member_id, generation_id=generation_id, **fields
        )
        client = Client("classic", "/10.0.0.2", 4)
        group = self.context.groups.get(GROUP)
        response: HeartbeatResponse
        if isinstance(group, ConsumerGroup):
            response = self._answer(self.protocol.classic.heartbeat(group, request, client))
        else:
            response = self._answer(self.classic.heartbeat(request, client))
        return ErrorCode(response.error_code)

    def classic_leave(self, *leaving: MemberIdentity | str, version: int = 5) -> LeaveGroupResponse:
        members = [
            MemberIdentity(member_id=member) if isinstance(member, str) else member
            for member in leaving
        ]
        request = LeaveGroupRequest(group_id=GROUP, members=members)
        if version < 3:
            request = LeaveGroupRequest(group_id=GROUP, member_id=members[0].member_id)
        client = Client("classic", "/10.0.0.2", version)
        return self._answer(self.protocol.classic.leave(self.group, request, client))


def of_t(*partitions: int) -> Partitions:
    return {("t", partition) for partition in partitions}


def two_members(coordinator: ConsumerCoordinator) -> None:
    """`a` has 0 and 1, `b` has 2 and 3 of `t`; both in epoch 3."""
    coordinator.join("a", "t")
    coordinator.join("b", "t")
    coordinator.heartbeat("a", 2)
    coordinator.heartbeat("a", 2, owned=of_t(0, 1))
    coordinator.heartbeat("b", 3)
    assert coordinator.group.state_name == "Stable"
    assert (coordinator.assigned("a"), coordinator.assigned("b")) == (of_t(0, 1), of_t(2, 3))


def embedded(assignment: bytes) -> Partitions:
    """What SyncGroup answered."""
    decoded = decode_embedded(ConsumerProtocolAssignment, assignment)
    return {
        (topic.topic, partition)
        for topic in decoded.assigned_partitions
        for partition in topic.partitions
    }


def _by_name(partitions: Partitions) -> list[TopicPartition]:
    by_topic: dict[str, list[int]] = {}
    for name, partition in sorted(partitions):
        by_topic.setdefault(name, []).append(partition)
    return [TopicPartition(topic=name, partitions=numbers) for name, numbers in by_topic.items()]
