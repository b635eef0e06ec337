"""DescribeGroups: members and assignments of classic groups. v3 brought authorized operations,
v4 static members, v6 an error for a group that does not exist (before, it was `Dead`)."""

from __future__ import annotations

from functools import partial

from ottla.coordinators.groups.context import Client
from ottla.coordinators.groups.group_shard import GroupShard
from ottla.kernel.errors import KafkaError
from ottla.kernel.slices import Slices
from ottla.server.context import RequestContext
from ottla.server.group_requests import GROUP_OPERATIONS, client_of
from ottla.server.services import Services
from ottla.wire.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)


async def handle(
    services: Services, request: DescribeGroupsRequest, context: RequestContext
) -> DescribeGroupsResponse:
    client = client_of(context)
    slices = Slices(services.clock)
    groups = [
        await _describe(services, group_id, client)
        async for group_id in slices.of(await slices.distinct(request.groups))
    ]
    if request.include_authorized_operations:
        async for group in slices.of(groups):
            if not group.error_code:
                group.authorized_operations = GROUP_OPERATIONS
    return DescribeGroupsResponse(groups=groups)


async def _describe(services: Services, group_id: str, client: Client) -> DescribedGroup:
    try:
        return await services.groups.read(
            group_id, partial(GroupShard.describe, group_id=group_id, client=client)
        )
    except KafkaError as error:
        return DescribedGroup(group_id=group_id, error_code=error.code, error_message=error.message)
