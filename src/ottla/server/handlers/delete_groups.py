"""DeleteGroups: groups without members, with their offsets."""

from __future__ import annotations

from functools import partial

from ottla.coordinators.groups.group_shard import GroupShard
from ottla.kernel.errors import KafkaError
from ottla.kernel.slices import Slices
from ottla.server.context import RequestContext
from ottla.server.services import Services
from ottla.wire.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)


async def handle(
    services: Services, request: DeleteGroupsRequest, context: RequestContext
) -> DeleteGroupsResponse:
    results: list[DeletableGroupResult] = []
    slices = Slices(services.clock)
    async for group_id in slices.of(await slices.distinct(request.groups_names)):
        try:
            result = await services.groups.write(
                group_id, partial(GroupShard.delete_group, group_id=group_id)
            )
        except KafkaError as error:
            result = DeletableGroupResult(group_id=group_id, error_code=error.code)
        results.append(result)
    return DeleteGroupsResponse(results=results)
