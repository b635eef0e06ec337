"""Random requests of members of a classic group.

A JoinGroup is answered when all members have joined, so members come together: `rebalance` sends
the joins of all of them, each on a connection of its own, and waits for all answers. Between two of
them the group is stable, waits for joins (`begin_rebalance`, or a member has left) or for its
leader's assignment, and single requests find it so.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ottla.kernel.errors import ErrorCode
from ottla.wire.messages.consumer_protocol import ConsumerProtocolSubscription, encode_embedded
from ottla.wire.messages.describe_groups import DescribeGroupsRequest
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.support.random_requests import committed_offsets
from tests.support.random_requests.committed_offsets import Groups, Identity
from tests.support.random_requests.stage import TIMEOUT_S, fitting
from tests.support.raw_group import wait_for_coordinator

SESSION_MS = 30_000


@dataclass
class Member:
    name: str
    instance_id: str | None = None
    id: str = ""
    epoch: int = -1
    """Its generation."""
    is_in: bool = False
    is_leader: bool = False
    protocol: str | None = None


class ClassicGroups(Groups):
    def prepare(self) -> None:
        self.topics = [self.create("a", 3), self.create("b", 2)]
        self.group = self.topic("group")
        self.members = [Member("m1"), Member("m2"), Member("m3", instance_id="i3")]
        self.parked: dict[str, int] = {}
        """Members that wait for the answer to a JoinGroup of this version."""
        self.is_stable = False
        wait_for_coordinator(self.subject.ask, self.group)

    @property
    def active(self) -> list[Member]:
        return [member for member in self.members if member.is_in]

    def committer(self) -> Identity:
        member = self.pick(*self.members)
        epoch = self.mostly(member.epoch, member.epoch - 1, member.epoch + 1, -1, share=0.8)
        mine = Member(member.name, member.instance_id, member.id, epoch)
        nobody = Member("", None, self.pick("", "nobody"), self.pick(-1, 0, 3))
        return self.mostly(mine, nobody)

    # -- joins ------------------------------------------------------------------------------

    def join_request(self, member: Member, version: int, **fields: Any) -> JoinGroupRequest:
        metadata = encode_embedded(ConsumerProtocolSubscription(topics=[self.topics[0]]), 1)
        return fitting(
            JoinGroupRequest,
            version,
            **{
                "group_id": self.group,
                "session_timeout_ms": SESSION_MS,
                "rebalance_timeout_ms": SESSION_MS,
                "member_id": member.id,
                "group_instance_id": member.instance_id,
                "protocol_type": "consumer",
                "protocols": [JoinGroupRequestProtocol(name="range", metadata=metadata)],
                **fields,
            },
        )

    def join_version(self, member: Member) -> int:
        return self.version(JoinGroupRequest, at_least=5 if member.instance_id else 0)

    def _send_join(self, member: Member) -> Any:
        """Returns the answer to a first request that was told a member id, if there was one."""
        version = self.join_version(member)
        refused = None
        client = self.client(member.name)
        if version >= 4 and not member.id and member.instance_id is None:
            refused = client.ask(self.join_request(member, version), version)
            self._know(member, refused)
        client.tell(self.join_request(member, version), version)
        self.parked[member.name] = version
        return refused

    def send_join_until_seen(self, member: Member) -> Any:
        """Waits until the group knows the member and waits for the others, or the member has an
        answer. Else another's join might come before it."""
        member_count = len(self._described().members) + (not member.is_in)
        refused = self._send_join(member)
        socket = self.client(member.name).socket
        deadline_s = time.monotonic() + TIMEOUT_S
        while not select.select([socket], [], [], 0)[0]:
            group = self._described()
            if group.group_state == "PreparingRebalance" and len(group.members) == member_count:
                break
            assert time.monotonic() < deadline_s, f"the join of {member.name} is not seen"
            time.sleep(0.002)
        return refused

    def _described(self) -> Any:
        return self.subject.ask(DescribeGroupsRequest(groups=[self.group]), 4).groups[0]

    def joined(self, member: Member) -> Any:
        version = self.parked.pop(member.name)
        answer = self.client(member.name).response(JoinGroupRequest.API_KEY, version)
        self._know(member, answer)
        if answer.error_code == ErrorCode.NONE:
            member.is_in = True
            member.epoch = answer.generation_id
            member.protocol = answer.protocol_name
            member.is_leader = answer.leader == answer.member_id
        elif answer.error_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            member.id, member.is_in, member.is_leader = "", False, False
        answer.members.sort(key=lambda one: self.names.get(one.member_id, ""))
        return answer

    def _know(self, member: Member, answer: Any) -> None:
        if answer.member_id:
            member.id = answer.member_id
            self.names[member.id] = f"id of {member.name}"

    # -- syncs ------------------------------------------------------------------------------

    def sync_request(self, member: Member, version: int, **fields: Any) -> SyncGroupRequest:
        return fitting(
            SyncGroupRequest,
            version,
            **{
                "group_id": self.group,
                "generation_id": member.epoch,
                "member_id": member.id,
                "group_instance_id": member.instance_id,
                "protocol_type": "consumer",
                "protocol_name": member.protocol,
                **fields,
            },
        )

    def sync_version(self, member: Member) -> int:
        return self.version(SyncGroupRequest, at_least=3 if member.instance_id else 0)


def rebalance(groups: ClassicGroups) -> Any:
    """All members join anew, and perhaps one more; then, mostly, all sync."""
    groups.asked = "joins of all members"
    absent = [member for member in groups.members if not member.is_in]
    joining = [member for member in groups.active if member.name not in groups.parked]
    joining.sort(key=lambda member: not member.is_leader)
    if absent and not groups.parked and (not joining or groups.chance(0.5)):
        joining.insert(0, groups.rng.choice(absent))
    answers: dict[str, Any] = {}
    for member in joining:
        answers[f"{member.name} without id"] = groups.send_join_until_seen(member)
    for member in groups.members:
        if member.name in groups.parked:
            answers[f"{member.name} joins"] = groups.joined(member)
    groups.is_stable = False
    if groups.chance(0.85):
        answers |= _sync_all(groups)
    return answers


def _sync_all(groups: ClassicGroups) -> dict[str, Any]:
    """The leader last: the others wait for it."""
    members = sorted(groups.active, key=lambda member: member.is_leader)
    versions = {member.name: groups.sync_version(member) for member in members}
    for member in members:
        request = groups.sync_request(member, versions[member.name])
        if member.is_leader:
            request.assignments = [
                SyncGroupRequestAssignment(member_id=each.id, assignment=each.name.encode())
                for each in members
            ]
        groups.client(member.name).tell(request, versions[member.name])
    groups.is_stable = True
    return {
        f"{member.name} syncs": groups.client(member.name).response(
            SyncGroupRequest.API_KEY, versions[member.name]
        )
        for member in members
    }


def begin_rebalance(groups: ClassicGroups) -> Any:
    """One more member joins, and waits for the others."""
    absent = [member for member in groups.members if not member.is_in]
    if not absent or not groups.active or groups.parked:
        return rebalance(groups)
    member = groups.rng.choice(absent)
    groups.asked = f"the join of {member.name}"
    groups.is_stable = False
    return groups.send_join_until_seen(member)


def join_wrongly(groups: ClassicGroups) -> Any:
    member = groups.pick(*groups.members)
    if member.name in groups.parked:
        return heartbeat(groups)
    wrong: list[dict[str, Any]] = [
        {"member_id": "nobody"},
        {"group_id": ""},
        {"session_timeout_ms": 100},
        {"session_timeout_ms": 10**9},
        {"protocols": []},
        {"protocol_type": ""},
    ]
    if groups.active and not member.is_in:
        wrong.append({"protocol_type": "connect"})
        wrong.append({"protocols": [JoinGroupRequestProtocol(name="other", metadata=b"")]})
    version = groups.join_version(member)
    return groups.ask(groups.join_request(member, version, **groups.pick(*wrong)), version)


def restart(groups: ClassicGroups) -> Any:
    """A static member comes back without knowing its id."""
    member = groups.members[2]
    if not (member.is_in and groups.is_stable):
        return heartbeat(groups)
    version = groups.join_version(member)
    groups.asked = f"v{version} the join of {member.name} without its id"
    before, was_leader = member.id, member.is_leader
    groups.client(member.name).tell(groups.join_request(member, version, member_id=""), version)
    groups.parked[member.name] = version
    answer = groups.joined(member)
    groups.names[before] = f"id before of {member.name}"
    member.is_leader = was_leader  # Up to v8 it hears of another: of itself, under the old id.
    return answer


def sync(groups: ClassicGroups) -> Any:
    """Of a group that has its assignment; else one would have to wait for its leader."""
    if not groups.is_stable:
        return heartbeat(groups)
    member = groups.pick(*groups.members)
    wrong: dict[str, Any] = {}
    if groups.chance(0.4):
        wrong = groups.pick(
            {"generation_id": member.epoch + 1},
            {"member_id": "nobody"},
            {"protocol_name": "other"},
            {"protocol_type": "connect"},
            {"group_id": ""},
        )
    version = groups.sync_version(member)
    return groups.ask(groups.sync_request(member, version, **wrong), version)


def heartbeat(groups: ClassicGroups) -> Any:
    version = groups.version(HeartbeatRequest)
    who = groups.committer()
    request = fitting(
        HeartbeatRequest,
        version,
        group_id=groups.any_group(),
        generation_id=who.epoch,
        member_id=who.id,
        group_instance_id=groups.mostly(who.instance_id, "other"),
    )
    return groups.ask(request, version)


def leave(groups: ClassicGroups) -> Any:
    """Not a leader that has followers: the next one is the first in a hash map."""
    leaving = [
        member
        for member in groups.active
        if member.name not in groups.parked and (not member.is_leader or len(groups.active) == 1)
    ]
    if not leaving:
        return rebalance(groups)
    member = groups.rng.choice(leaving)
    version = groups.version(LeaveGroupRequest)
    if version < 3:
        request = LeaveGroupRequest(group_id=groups.group, member_id=member.id)
    else:
        instance_id = groups.mostly(member.instance_id, "other")
        member_id = member.id
        if instance_id is not None and groups.chance(0.5):
            member_id = ""
        identities = [MemberIdentity(member_id=member_id, group_instance_id=instance_id)]
        if groups.chance(0.2):
            identities.append(MemberIdentity(member_id="nobody"))
        request = LeaveGroupRequest(group_id=groups.group, members=identities)
    answer = groups.ask(request, version)
    code = answer.error_code or (answer.members[0].error_code if answer.members else 0)
    if code == ErrorCode.NONE:
        member.is_in = member.is_leader = groups.is_stable = False
        if member.instance_id is not None:
            member.id = ""
    return answer


STEPS: Mapping[Callable[..., Any], int] = {
    rebalance: 6,
    begin_rebalance: 2,
    join_wrongly: 2,
    restart: 2,
    sync: 2,
    heartbeat: 6,
    leave: 4,
    **committed_offsets.STEPS,
}
