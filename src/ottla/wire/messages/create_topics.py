"""CreateTopics: makes topics.

- Version 4 lets the broker choose partitions and replication factor, by -1 (KIP-464).
- 5 is flexible and answers with what was made, configs included (KIP-525).
- 6 may answer THROTTLING_QUOTA_EXCEEDED (KIP-599).
- 7 answers with the topic id.
"""

from __future__ import annotations

from ottla.kernel.ids import TopicId
from ottla.wire.schema import (
    Request,
    Response,
    Struct,
    array,
    boolean,
    int8,
    int16,
    int32,
    string,
    uuid,
)


class CreatableReplicaAssignment(Struct):
    partition_index: int = int32()
    broker_ids: list[int] = array(int32())


class CreatableTopicConfig(Struct):
    name: str = string()
    value: str | None = string(nullable="2+")


class CreatableTopic(Struct):
    name: str = string()
    # -1 where assignments say it, or the broker shall choose.
    num_partitions: int = int32()
    replication_factor: int = int16()
    assignments: list[CreatableReplicaAssignment] = array(CreatableReplicaAssignment)
    configs: list[CreatableTopicConfig] = array(CreatableTopicConfig)


class CreateTopicsRequest(Request, api_key=19, versions="2-7", flexible="5+"):
    topics: list[CreatableTopic] = array(CreatableTopic)
    timeout_ms: int = int32(default=60_000)
    validate_only: bool = boolean()


class CreatableTopicConfigs(Struct):
    name: str = string()
    value: str | None = string(nullable="5+")
    read_only: bool = boolean()
    # As in DescribeConfigs.
    config_source: int = int8(default=-1)
    is_sensitive: bool = boolean()


class CreatableTopicResult(Struct):
    name: str = string()
    topic_id: TopicId = uuid("7+")
    error_code: int = int16()
    error_message: str | None = string(nullable="2+")
    # Why configs are not told, where they are not.
    topic_config_error_code: int = int16("5+", tag=0)
    num_partitions: int = int32("5+", default=-1)
    replication_factor: int = int16("5+", default=-1)
    configs: list[CreatableTopicConfigs] | None = array(CreatableTopicConfigs, "5+", nullable="5+")


class CreateTopicsResponse(Response, api_key=19, versions="2-7", flexible="5+"):
    throttle_time_ms: int = int32()
    topics: list[CreatableTopicResult] = array(CreatableTopicResult)
