"""ListGroups: the groups of this coordinator. v4 filters by state (KIP-518), v5 by type."""

from __future__ import annotations

from ottla.coordinators.groups.group_shard import GroupShard
from ottla.kernel.errors import KafkaError
from ottla.kernel.slices import Slices
from ottla.server.context import RequestContext
from ottla.server.services import Services
from ottla.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse


async def handle(
    services: Services, request: ListGroupsRequest, context: RequestContext
) -> ListGroupsResponse:
    slices = Slices(services.clock)
    states = {state.lower() async for state in slices.of(request.states_filter)}
    types = {kind.lower() async for kind in slices.of(request.types_filter)}
    try:
        shards = await services.groups.read_all(GroupShard.list_groups)
    except KafkaError as error:
        return ListGroupsResponse(error_code=error.code)
    return ListGroupsResponse(
        groups=[
            group
            for groups in shards
            async for group in slices.of(groups)
            if (not states or group.group_state.lower() in states)
            and (not types or group.group_type.lower() in types)
        ]
    )
