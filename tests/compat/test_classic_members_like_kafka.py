"""Members of classic groups, answer by answer beside Apache Kafka: versions, static members,
protocols, and who is told what in the middle of a rebalance."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from ottla.kernel.errors import ErrorCode
from ottla.wire.messages.describe_groups import DescribeGroupsRequest
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.wire.messages.sync_group import SyncGroupRequest
from tests.support.raw_client import as_dict
from tests.support.raw_group import RawMember, wait_for_coordinator
from tests.support.side_by_side import Both, Subject, assert_alike

POLL_S = 0.01


class Stage:
    """A group on one of the brokers, and everything that was seen there."""

    def __init__(self, subject: Subject, group: str) -> None:
        self.subject = subject
        self.group = group
        self._seen: list[Any] = []
        self._members: list[RawMember] = []
        self._names: dict[str, str] = {}
        wait_for_coordinator(subject.ask, group)

    def member(self, instance_id: str | None = None) -> RawMember:
        member = RawMember(self.subject.bootstrap, self.group, instance_id)
        self._members.append(member)
        return member

    def saw(self, answer: Any) -> Any:
        for member in self._members:
            if member.member_id:
                self._names.setdefault(member.member_id, f"member {len(self._names)}")
        self._seen.append(as_dict(answer))
        return answer

    @property
    def seen(self) -> Any:
        return [self._named(answer) for answer in self._seen]

    def saw_group(self) -> None:
        self.saw(self.subject.ask(DescribeGroupsRequest(groups=[self.group]), 6).groups[0])

    def _named(self, value: Any) -> Any:
        """Ids are random, and members in no order."""
        if isinstance(value, dict):
            return {name: self._named(one) for name, one in value.items()}
        if isinstance(value, list):
            return sorted((self._named(one) for one in value), key=repr)
        return self._names.get(value, value) if isinstance(value, str) else value

    def wait_for_rebalance(self, member: RawMember) -> None:
        while member.heartbeat().error_code == ErrorCode.NONE:
            time.sleep(POLL_S)
        self.saw(member.heartbeat())

    def close(self) -> None:
        for member in self._members:
            member.close()


def assert_same_play(both: Both, group: str, play: Callable[[Stage], None]) -> None:
    def scenario(subject: Subject) -> Any:
        stage = Stage(subject, group)
        try:
            play(stage)
        finally:
            stage.close()
        return stage.seen

    assert_alike(both, scenario)


def protocols(*names: str, metadata: bytes = b"\0\0\0\0\0\0") -> list[JoinGroupRequestProtocol]:
    return [JoinGroupRequestProtocol(name=name, metadata=metadata) for name in names]


def stable_pair(stage: Stage, one: RawMember, two: RawMember, version: int = 9) -> None:
    """Both own something in generation 2, the first leads."""
    one.join(version=version)
    one.sync({one.member_id: b"all"})
    two.send_join(version=version)
    if two.instance_id is None:
        two.joined(version)
        two.send_join(version=version)
    stage.wait_for_rebalance(one)
    one.send_join(version=version)
    stage.saw(one.joined(version))
    stage.saw(two.joined(version))
    stage.saw(one.sync({one.member_id: b"first", two.member_id: b"second"}))
    stage.saw(two.sync())


@pytest.mark.parametrize("version", JoinGroupRequest.VERSIONS)
def test_a_member_of_every_version(both: Both, topic: str, version: int) -> None:
    sync_version = min(version, max(SyncGroupRequest.VERSIONS))
    heartbeat_version = min(version, max(HeartbeatRequest.VERSIONS))
    leave_version = min(version, max(LeaveGroupRequest.VERSIONS))

    def play(stage: Stage) -> None:
        member = stage.member()
        stage.saw(member.join("a topic", version=version))
        stage.saw(member.sync({member.member_id: b"all"}, version=sync_version))
        stage.saw(member.sync(version=sync_version))
        stage.saw(member.heartbeat(version=heartbeat_version))
        stage.saw_group()
        for _ in range(2):
            request = LeaveGroupRequest(group_id=stage.group, member_id=member.member_id)
            if leave_version >= 3:
                identity = MemberIdentity(member_id=member.member_id)
                request = LeaveGroupRequest(group_id=stage.group, members=[identity])
            stage.saw(member.client.ask(request, leave_version))
        stage.saw_group()

    assert_same_play(both, topic, play)


@pytest.mark.parametrize("version", [5, 6, 8, 9])
@pytest.mark.parametrize("is_leader", [False, True])
def test_a_static_member_comes_back(both: Both, topic: str, version: int, is_leader: bool) -> None:
    def play(stage: Stage) -> None:
        static, other = stage.member("instance"), stage.member()
        pair = (static, other) if is_leader else (other, static)
        stable_pair(stage, *pair, version=version)

        again = stage.member("instance")
        stage.saw(again.join(version=version))
        stage.saw(again.sync())
        stage.saw(other.heartbeat())
        stage.saw_group()

        # The process before it is fenced, whatever it tries.
        stage.saw(static.heartbeat())
        stage.saw(static.sync())
        stage.saw(static.join(version=version))
        identity = MemberIdentity(member_id=static.member_id, group_instance_id="instance")
        leave = LeaveGroupRequest(group_id=stage.group, members=[identity])
        stage.saw(static.client.ask(leave, 5))
        static.instance_id = None
        stage.saw(static.heartbeat())

    assert_same_play(both, topic, play)


def test_a_static_member_comes_back_with_another_subscription(both: Both, topic: str) -> None:
    def play(stage: Stage) -> None:
        one, two = stage.member(), stage.member("instance")
        stable_pair(stage, one, two)

        again = stage.member("instance")
        stage.saw(again.join("another topic"))
        stage.saw_group()

    assert_same_play(both, topic, play)


def test_a_static_member_comes_back_with_another_protocol(both: Both, topic: str) -> None:
    def play(stage: Stage) -> None:
        one, two = stage.member("one"), stage.member("two")
        stage.saw(one.join(protocols=protocols("range", "sticky")))
        stage.saw(one.sync({one.member_id: b"all"}))
        two.send_join(protocols=protocols("range", "sticky"))
        stage.wait_for_rebalance(one)
        one.send_join(protocols=protocols("range", "sticky"))
        stage.saw(one.joined())
        stage.saw(two.joined())
        stage.saw(one.sync({one.member_id: b"first", two.member_id: b"second"}))
        stage.saw(two.sync())

        again = stage.member("two")
        again.send_join(protocols=protocols("sticky"))
        stage.wait_for_rebalance(one)
        one.send_join(protocols=protocols("range", "sticky"))
        stage.saw(one.joined())
        stage.saw(again.joined())

    assert_same_play(both, topic, play)


def test_a_static_member_comes_back_before_the_leader_has_assigned(both: Both, topic: str) -> None:
    def play(stage: Stage) -> None:
        one, two = stage.member(), stage.member("instance")
        stable_pair(stage, one, two)
        one.send_join("another topic")
        stage.wait_for_rebalance(two)
        two.send_join()
        stage.saw(one.joined())
        stage.saw(two.joined())

        again = stage.member("instance")
        again.send_join()
        stage.wait_for_rebalance(one)
        one.send_join("another topic")
        stage.saw(one.joined())
        stage.saw(again.joined())
        stage.saw(two.sync())

    assert_same_play(both, topic, play)


def test_who_joins_again(both: Both, topic: str) -> None:
    def play(stage: Stage) -> None:
        one, two = stage.member(), stage.member()
        stable_pair(stage, one, two)

        stage.saw(two.join())  # The same again: nothing happens.
        stage.saw(two.sync())
        one.send_join()  # The leader: it wants to assign.
        stage.wait_for_rebalance(two)
        stage.saw(two.sync())
        two.send_join()
        stage.saw(one.joined())
        stage.saw(two.joined())
        stage.saw(one.join())  # They did not hear it.
        stage.saw(two.join())
        two.send_join("another topic")
        stage.wait_for_rebalance(one)
        stage.saw(one.sync({one.member_id: b"too late"}))
        one.send_join()
        stage.saw(one.joined())
        stage.saw(two.joined())

    assert_same_play(both, topic, play)


def test_who_cannot_join(both: Both, topic: str) -> None:
    def play(stage: Stage) -> None:
        stage.saw(stage.member().join(protocols=[]))
        stage.saw(stage.member().join(protocol_type=""))
        stage.saw(stage.member().join(session_timeout_ms=5_999))
        stage.saw(stage.member().join(session_timeout_ms=1_800_001))
        one = stage.member()
        stage.saw(one.join(protocols=protocols("range", "sticky")))
        stage.saw(one.sync({one.member_id: b"all"}))
        stage.saw(stage.member().join(protocols=protocols("other")))
        stage.saw(stage.member().join(protocol_type="connect"))
        stranger = stage.member()
        stranger.member_id = "stranger"
        stage.saw(stranger.join())
        stranger.instance_id = "instance"
        stage.saw(stranger.join())

    assert_same_play(both, topic, play)


def test_a_protocol_is_voted_for(both: Both, topic: str) -> None:
    def play(stage: Stage) -> None:
        one, two, three = (stage.member() for _ in range(3))
        stage.saw(one.join(protocols=protocols("range", "sticky", "own")))
        for member in (two, three):
            member.send_join(protocols=protocols("sticky", "other", "range"))
            assert member.joined().error_code == ErrorCode.MEMBER_ID_REQUIRED
            member.send_join(protocols=protocols("sticky", "other", "range"))
        stage.wait_for_rebalance(one)
        while len(stage.subject.ask(_describe(stage.group), 6).groups[0].members) < 3:
            time.sleep(POLL_S)
        one.send_join(protocols=protocols("range", "sticky", "own"))
        for member in (one, two, three):
            assert stage.saw(member.joined()).protocol_name == "sticky"
        wrong = one.protocol_name
        one.protocol_name = "range"
        stage.saw(one.sync({one.member_id: b"all"}))
        one.protocol_name = None
        stage.saw(one.sync({one.member_id: b"all"}))
        stage.saw(one.sync({one.member_id: b"all"}, version=4))
        two.protocol_name = wrong
        stage.saw(two.sync())

    assert_same_play(both, topic, play)


def _describe(group: str) -> DescribeGroupsRequest:
    return DescribeGroupsRequest(groups=[group])


def test_many_leave_at_once(both: Both, topic: str) -> None:
    def play(stage: Stage) -> None:
        one, two = stage.member(), stage.member("instance")
        stable_pair(stage, one, two)
        pending = stage.member()
        pending.send_join()
        stage.saw(pending.joined())
        leaving = [
            MemberIdentity(member_id="stranger"),
            MemberIdentity(member_id="stranger", group_instance_id="instance"),
            MemberIdentity(member_id=""),
            MemberIdentity(member_id="", group_instance_id="no such"),
            MemberIdentity(member_id="", group_instance_id="instance", reason="an administrator"),
            MemberIdentity(member_id=pending.member_id),
            MemberIdentity(member_id=two.member_id, group_instance_id="instance"),
        ]
        leave = LeaveGroupRequest(group_id=stage.group, members=leaving)
        stage.saw(one.client.ask(leave, 5))
        stage.saw(one.heartbeat())
        stage.saw(pending.join())
        stage.saw(one.join())
        stage.saw(one.leave())
        stage.saw_group()

    assert_same_play(both, topic, play)


def test_a_member_vanishes(both: Both, topic: str) -> None:
    def play(stage: Stage) -> None:
        one, two = stage.member(), stage.member()
        one.join()
        one.sync({one.member_id: b"all"})
        two.send_join(session_timeout_ms=6_000)
        two.joined()
        two.send_join(session_timeout_ms=6_000)
        stage.wait_for_rebalance(one)
        one.send_join()
        one.joined()
        two.joined()
        one.sync({one.member_id: b"first", two.member_id: b"second"})
        two.sync()

        stage.wait_for_rebalance(one)
        stage.saw(one.join())
        stage.saw(two.heartbeat())
        stage.saw(two.join())

    assert_same_play(both, topic, play)
