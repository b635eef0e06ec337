"""ConsumerGroupHeartbeat: the whole of the newer protocol, in which the broker assigns (KIP-848).

A member joins, tells what it subscribes to and what it owns, hears what it shall own, and leaves,
all by this. After the first, a field that is null (or -1) has not changed.

- Version 1 can subscribe by a regular expression, and has the member make its own id (KIP-1082).
"""

from __future__ import annotations

from ottla.kernel.ids import TopicId
from ottla.wire.schema import (
    Request,
    Response,
    Struct,
    array,
    int16,
    int32,
    nested,
    string,
    uuid,
)


class TopicPartitions(Struct):
    topic_id: TopicId = uuid()
    partitions: list[int] = array(int32())


class ConsumerGroupHeartbeatRequest(Request, api_key=68, versions="0-1", flexible="0+"):
    group_id: str = string()
    member_id: str = string()
    # 0 joins, -1 leaves, -2 leaves as a static member that will be back.
    member_epoch: int = int32()
    instance_id: str | None = string(nullable="0+", default=None)
    rack_id: str | None = string(nullable="0+", default=None)
    rebalance_timeout_ms: int = int32(default=-1)
    subscribed_topic_names: list[str] | None = array(string(), nullable="0+", default=None)
    subscribed_topic_regex: str | None = string("1+", nullable="1+", default=None, ignorable=False)
    server_assignor: str | None = string(nullable="0+", default=None)
    # What the member owns now.
    topic_partitions: list[TopicPartitions] | None = array(
        TopicPartitions, nullable="0+", default=None
    )


class Assignment(Struct, frozen=True):
    topic_partitions: list[TopicPartitions] = array(TopicPartitions)


class ConsumerGroupHeartbeatResponse(Response, api_key=68, versions="0-1", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    member_id: str | None = string(nullable="0+", default=None)
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    # Null if the member need not hear it: it has what it should.
    assignment: Assignment | None = nested(Assignment, nullable="0+", default=None)
