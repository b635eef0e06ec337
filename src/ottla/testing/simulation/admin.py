"""Whoever administers a simulated cluster: makes topics, grows and changes them, deletes
them or some of their records, moves partitions, and has leaders elected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import TopicPartition
from ottla.testing.simulation.client import Refused, SimulatedClient, check
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from ottla.wire.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from ottla.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from ottla.wire.schema import Request, Response

R = TypeVar("R", bound=Response)

TIMEOUT_MS = 1500
PREFERRED = 0
"""A type of elections."""
TOPIC, SET = 2, 0
"""A type of resources, and an operation on a setting."""


class Admin:
    """Asks the controller, or whoever is taken for it; a refusal that says so is asked again."""

    def __init__(self, client: SimulatedClient) -> None:
        self._client = client

    async def create_topic(
        self, name: str, partition_count: int, replica_count: int, config: Mapping[str, str]
    ) -> None:
        """Until it is there, whoever has made it."""
        topic = CreatableTopic(
            name=name,
            num_partitions=partition_count,
            replication_factor=replica_count,
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in config.items()],
        )

        async def attempt() -> None:
            answer = await self._ask_controller(
                CreateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS), CreateTopicsResponse
            )
            if answer.topics[0].error_code != ErrorCode.TOPIC_ALREADY_EXISTS:
                check(answer.topics[0].error_code)

        await self._client.insist(attempt, gives_up_on=frozenset())

    async def delete_topic(self, name: str) -> bool:
        """Until it is not there any more. Whether it was this that has deleted it."""

        async def attempt() -> None:
            answer = await self._ask_controller(
                DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=TIMEOUT_MS),
                DeleteTopicsResponse,
            )
            check(answer.responses[0].error_code)

        gone = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
        try:
            await self._client.insist(attempt, gives_up_on=gone)
        except Refused:
            return False
        return True

    async def grow_topic(self, name: str, partition_count: int) -> None:
        async def attempt() -> None:
            topic = CreatePartitionsTopic(name=name, count=partition_count, assignments=None)
            answer = await self._ask_controller(
                CreatePartitionsRequest(topics=[topic], timeout_ms=TIMEOUT_MS),
                CreatePartitionsResponse,
            )
            check(answer.results[0].error_code)

        done = frozenset({ErrorCode.INVALID_PARTITIONS, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
        try:
            await self._client.insist(attempt, gives_up_on=done)
        except Refused:
            return

    async def move_partition(self, partition: TopicPartition, replicas: Sequence[int]) -> None:
        """Begins to. A move that is under way goes elsewhere from here on."""

        async def attempt() -> None:
            moved = ReassignablePartition(
                partition_index=partition.partition, replicas=list(replicas)
            )
            topic = ReassignableTopic(name=partition.topic, partitions=[moved])
            answer = await self._ask_controller(
                AlterPartitionReassignmentsRequest(topics=[topic], timeout_ms=TIMEOUT_MS),
                AlterPartitionReassignmentsResponse,
            )
            check(answer.error_code)
            check(answer.responses[0].partitions[0].error_code)

        refusals = frozenset(
            {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_REPLICA_ASSIGNMENT}
        )
        try:
            await self._client.insist(attempt, gives_up_on=refusals)
        except Refused:
            return  # A broker of them is not alive now, say.

    async def delete_records(self, partition: TopicPartition, before_offset: int) -> int | None:
        """Returns where the log starts then; None when it was refused, or nobody knows."""
        topic = DeleteRecordsTopic(
            name=partition.topic,
            partitions=[
                DeleteRecordsPartition(partition_index=partition.partition, offset=before_offset)
            ],
        )
        try:
            answer = await self._client.ask(
                await self._client.leader_of(partition),
                DeleteRecordsRequest(topics=[topic], timeout_ms=TIMEOUT_MS),
                DeleteRecordsResponse,
            )
            check(answer.topics[0].partitions[0].error_code)
        except (OSError, Refused):
            self._client.forget_leader(partition)
            return None
        return answer.topics[0].partitions[0].low_watermark

    async def elect_preferred_leaders(self) -> None:
        """Of all partitions. Once."""
        request = ElectLeadersRequest(
            election_type=PREFERRED, topic_partitions=None, timeout_ms=TIMEOUT_MS
        )
        try:
            answer = await self._ask_controller(request, ElectLeadersResponse)
            check(answer.error_code)
        except (OSError, Refused):
            return

    async def alter_topic(self, name: str, key: str, value: str) -> None:
        changed = AlterConfigsResource(
            resource_type=TOPIC,
            resource_name=name,
            configs=[AlterableConfig(name=key, config_operation=SET, value=value)],
        )

        async def attempt() -> None:
            answer = await self._ask_controller(
                IncrementalAlterConfigsRequest(resources=[changed], validate_only=False),
                IncrementalAlterConfigsResponse,
            )
            check(answer.responses[0].error_code)

        await self._client.insist(attempt, gives_up_on=frozenset())

    async def _ask_controller(self, request: Request, response_class: type[R]) -> R:
        found = await self._client.ask_any(MetadataRequest(topics=[]), MetadataResponse)
        if found.controller_id == -1:
            raise Refused(ErrorCode.NOT_CONTROLLER)
        return await self._client.ask(found.controller_id, request, response_class)
