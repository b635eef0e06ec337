"""Members of a classic group that speak the protocol by hand, to any broker."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import NO_TOPIC_ID, TopicId
from ottla.wire.messages.consumer_protocol import ConsumerProtocolSubscription, encode_embedded
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from ottla.wire.schema import Request
from tests.support.raw_client import RawClient

SESSION_MS = 30_000
TIMEOUT_S = 30

_WAIT_FOR = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE)


def wait_for_coordinator(ask: Callable[[Request, int], Any], group_id: str) -> None:
    """Apache Kafka makes the topic of the coordinators in the background."""
    deadline_s = time.monotonic() + TIMEOUT_S
    fetch = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group_id, topics=None)])
    while time.monotonic() < deadline_s:
        found = ask(FindCoordinatorRequest(coordinator_keys=[group_id]), 4).coordinators[0]
        if found.error_code == ErrorCode.NONE:
            code = ask(fetch, 9).groups[0].error_code
            if code not in (*_WAIT_FOR, ErrorCode.NOT_COORDINATOR):
                return
        time.sleep(0.05)
    raise TimeoutError(f"no coordinator for {group_id}")


class RawMember:
    """One member on a connection of its own. `generation_id` is that of its last join."""

    def __init__(self, bootstrap: str, group_id: str, instance_id: str | None = None) -> None:
        self.client = RawClient(bootstrap)
        self.group_id = group_id
        self.instance_id = instance_id
        self.member_id = ""
        self.generation_id = -1
        self.leader_id = ""
        self.protocol_name: str | None = None

    def close(self) -> None:
        self.client.close()

    def send_join(self, *topics: str, version: int = 9, **fields: Any) -> None:
        subscription = encode_embedded(ConsumerProtocolSubscription(topics=list(topics)), 1)
        request = JoinGroupRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            **{
                "session_timeout_ms": SESSION_MS,
                "rebalance_timeout_ms": SESSION_MS,
                "protocol_type": "consumer",
                "protocols": [JoinGroupRequestProtocol(name="range", metadata=subscription)],
                **fields,
            },
        )
        self.client.tell(request, version)

    def joined(self, version: int = 9) -> Any:
        response = self.client.response(JoinGroupRequest.API_KEY, version)
        if response.member_id:
            self.member_id = response.member_id
        if response.error_code == ErrorCode.NONE:
            self.generation_id = response.generation_id
            self.leader_id = response.leader
            self.protocol_name = response.protocol_name
        return response

    def join(self, *topics: str, version: int = 9, **fields: Any) -> Any:
        """Twice where the broker demands a member id."""
        self.send_join(*topics, version=version, **fields)
        response = self.joined(version)
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.send_join(*topics, version=version, **fields)
            response = self.joined(version)
        return response

    def sync(self, assignments: dict[str, bytes] | None = None, version: int = 5) -> Any:
        request = SyncGroupRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            generation_id=self.generation_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocol_name=self.protocol_name,
            assignments=[
                SyncGroupRequestAssignment(member_id=to, assignment=assignment)
                for to, assignment in (assignments or {}).items()
            ],
        )
        return self.client.ask(request, version)

    def heartbeat(self, version: int = 4) -> Any:
        request = HeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            generation_id=self.generation_id,
            group_instance_id=self.instance_id,
        )
        return self.client.ask(request, version)

    def leave(self, version: int = 5) -> Any:
        request = LeaveGroupRequest(
            group_id=self.group_id,
            member_id=self.member_id if version < 3 else "",
            members=[] if version < 3 else [MemberIdentity(member_id=self.member_id)],
        )
        return self.client.ask(request, version)


def commit_request(
    group_id: str,
    offsets: dict[str, dict[int, int]],
    *,
    topic_ids: dict[str, TopicId] | None = None,
    metadata: str | None = "",
    leader_epoch: int = -1,
    **fields: Any,
) -> OffsetCommitRequest:
    """`offsets` are by topic and partition."""
    return OffsetCommitRequest(
        group_id=group_id,
        topics=[
            OffsetCommitRequestTopic(
                name=topic,
                topic_id=(topic_ids or {}).get(topic, NO_TOPIC_ID),
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=partition,
                        committed_offset=offset,
                        committed_metadata=metadata,
                        committed_leader_epoch=leader_epoch,
                    )
                    for partition, offset in partitions.items()
                ],
            )
            for topic, partitions in offsets.items()
        ],
        **fields,
    )


def fetch_request(
    version: int,
    group_id: str,
    partitions: dict[str, list[int]] | None,
    *,
    topic_ids: dict[str, TopicId] | None = None,
    **fields: Any,
) -> OffsetFetchRequest:
    """In the form that this version has. None asks for all."""
    if version < 8:
        return OffsetFetchRequest(
            group_id=group_id,
            topics=None
            if partitions is None
            else [
                OffsetFetchRequestTopic(name=topic, partition_indexes=indexes)
                for topic, indexes in partitions.items()
            ],
            **fields,
        )
    topics = None
    if partitions is not None:
        topics = [
            OffsetFetchRequestTopics(
                name=topic,
                topic_id=(topic_ids or {}).get(topic, NO_TOPIC_ID),
                partition_indexes=indexes,
            )
            for topic, indexes in partitions.items()
        ]
    return OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=group_id, topics=topics)], **fields
    )
