"""ConsumerGroupDescribe: members and assignments of groups of the consumer protocol (KIP-848).
v1 tells which protocol each member speaks."""

from __future__ import annotations

from functools import partial

from ottla.coordinators.groups.group_shard import GroupShard
from ottla.kernel.errors import KafkaError
from ottla.kernel.slices import Slices
from ottla.server.context import RequestContext
from ottla.server.group_requests import GROUP_OPERATIONS, check_group_id
from ottla.server.services import Services
from ottla.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)


async def handle(
    services: Services, request: ConsumerGroupDescribeRequest, context: RequestContext
) -> ConsumerGroupDescribeResponse:
    slices = Slices(services.clock)
    groups = [
        await _describe(services, group_id)
        async for group_id in slices.of(await slices.distinct(request.group_ids))
    ]
    if request.include_authorized_operations:
        async for group in slices.of(groups):
            if not group.error_code:
                group.authorized_operations = GROUP_OPERATIONS
    return ConsumerGroupDescribeResponse(groups=groups)


async def _describe(services: Services, group_id: str) -> DescribedGroup:
    try:
        check_group_id(group_id)
        return await services.groups.read(
            group_id, partial(GroupShard.describe_consumer_group, group_id=group_id)
        )
    except KafkaError as error:
        return DescribedGroup(group_id=group_id, error_code=error.code, error_message=error.message)
