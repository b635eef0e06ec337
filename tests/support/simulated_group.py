"""Members and offsets of groups, against a broker in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ottla.client.connection import ClientConnection
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import TopicId
from ottla.kernel.internal_topics import CONSUMER_OFFSETS
from ottla.wire.messages.consumer_protocol import ConsumerProtocolSubscription, encode_embedded
from ottla.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from ottla.wire.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from ottla.wire.messages.offset_commit import OffsetCommitResponse
from ottla.wire.messages.offset_fetch import OffsetFetchResponse
from ottla.wire.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from tests.support.raw_group import commit_request, fetch_request
from tests.support.simulated_broker import SimulatedBroker

SESSION_MS = 10_000


async def find_coordinator(broker: SimulatedBroker, group_id: str) -> None:
    """As every client does first: it makes `__consumer_offsets`."""
    request = FindCoordinatorRequest(coordinator_keys=[group_id])
    (found,) = (await broker.call(request, FindCoordinatorResponse)).coordinators
    assert found.error_code == ErrorCode.NONE


async def commit(
    broker: SimulatedBroker,
    group_id: str,
    offsets: dict[str, dict[int, int]],
    *,
    version: int = 9,
    **fields: Any,
) -> list[ErrorCode]:
    """The codes, in the order of the request."""
    request = commit_request(group_id, offsets, **fields)
    response = await broker.call(request, OffsetCommitResponse, version)
    return [ErrorCode(one.error_code) for topic in response.topics for one in topic.partitions]


async def committed(
    broker: SimulatedBroker,
    group_id: str,
    partitions: dict[str, list[int]] | None = None,
    *,
    version: int = 9,
    topic_ids: dict[str, TopicId] | None = None,
) -> dict[tuple[str, int], int]:
    """Offsets by topic and partition; what is not there is left out."""
    request = fetch_request(version, group_id, partitions, topic_ids=topic_ids)
    while True:
        (group,) = (await broker.call(request, OffsetFetchResponse, version)).groups
        if group.error_code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            break
        await asyncio.sleep(0.01)  # As clients do, after a restart.
    assert group.error_code == ErrorCode.NONE
    return {
        (topic.name, one.partition_index): one.committed_offset
        for topic in group.topics
        for one in topic.partitions
        if one.committed_offset != -1
    }


async def describe(broker: SimulatedBroker, group_id: str, version: int = 6) -> DescribedGroup:
    request = DescribeGroupsRequest(groups=[group_id])
    return (await broker.call(request, DescribeGroupsResponse, version)).groups[0]


async def delete(broker: SimulatedBroker, *group_ids: str) -> list[ErrorCode]:
    request = DeleteGroupsRequest(groups_names=list(group_ids))
    response = await broker.call(request, DeleteGroupsResponse)
    return [ErrorCode(result.error_code) for result in response.results]


class Member:
    """On a connection of its own, since a join waits for others. `sync` hands in an assignment
    if it leads: every member gets its own id."""

    def __init__(self, connection: ClientConnection, group_id: str, *topics: str) -> None:
        self._connection = connection
        self.group_id = group_id
        self.topics = topics
        self.member_id = ""
        self.generation_id = -1
        self._others: list[str] = []

    @classmethod
    async def connect(cls, broker: SimulatedBroker, group_id: str, *topics: str) -> Member:
        await find_coordinator(broker, group_id)
        return cls(await broker.connect(), group_id, *topics)

    @classmethod
    async def stable(cls, broker: SimulatedBroker, group_id: str, *topics: str) -> Member:
        """The only one of its group, with an assignment."""
        member = await cls.connect(broker, group_id, *topics)
        await member.join()
        await member.sync()
        return member

    async def join(self, version: int = 9, **fields: Any) -> JoinGroupResponse:
        response = await self._join(version, fields)
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
            response = await self._join(version, fields)
        if response.error_code == ErrorCode.NONE:
            self.member_id = response.member_id
            self.generation_id = response.generation_id
            self._others = [member.member_id for member in response.members]
        return response

    async def _join(self, version: int, fields: dict[str, Any]) -> JoinGroupResponse:
        subscription = encode_embedded(ConsumerProtocolSubscription(topics=list(self.topics)), 1)
        request = JoinGroupRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            **{
                "protocols": [JoinGroupRequestProtocol(name="range", metadata=subscription)],
                "session_timeout_ms": SESSION_MS,
                "rebalance_timeout_ms": SESSION_MS,
                "protocol_type": "consumer",
                **fields,
            },
        )
        return await self._connection.call(request, JoinGroupResponse, version)

    async def sync(self, version: int = 5) -> SyncGroupResponse:
        request = SyncGroupRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            generation_id=self.generation_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[
                SyncGroupRequestAssignment(member_id=to, assignment=to.encode())
                for to in self._others
            ],
        )
        return await self._connection.call(request, SyncGroupResponse, version)

    async def heartbeat(self, version: int = 4) -> ErrorCode:
        request = HeartbeatRequest(
            group_id=self.group_id, member_id=self.member_id, generation_id=self.generation_id
        )
        return ErrorCode(
            (await self._connection.call(request, HeartbeatResponse, version)).error_code
        )

    async def leave(self, version: int = 5) -> LeaveGroupResponse:
        request = LeaveGroupRequest(
            group_id=self.group_id,
            member_id=self.member_id if version < 3 else "",
            members=[] if version < 3 else [MemberIdentity(member_id=self.member_id)],
        )
        return await self._connection.call(request, LeaveGroupResponse, version)


class _Held:
    """Workers that come to it when they are let go, and then find nothing."""

    def __init__(self) -> None:
        self._futures: list[asyncio.Future[bytes]] = []

    def submit(self, *_: Any) -> asyncio.Future[bytes]:
        self._futures.append(asyncio.get_running_loop().create_future())
        return self._futures[-1]

    def let_go(self) -> None:
        for future in self._futures:
            future.set_result(b"")


@contextmanager
def loading(broker: SimulatedBroker, group_id: str) -> Iterator[None]:
    """The coordinator of the group loads as long as this lasts. There must be something to
    load."""
    groups = broker.machine.broker.groups
    assert groups is not None
    partition = broker.machine.broker.replicas.partition(
        CONSUMER_OFFSETS, groups.partition_of(group_id)
    )
    assert partition.log.log_end_offset > 0, "nothing to load"
    workers = partition.log.folder.workers
    held = _Held()
    partition.log.folder.workers = held  # type: ignore[assignment]
    groups.become_leader(partition.leader)
    try:
        yield
    finally:
        partition.log.folder.workers = workers
        groups.become_leader(partition.leader)
        held.let_go()
