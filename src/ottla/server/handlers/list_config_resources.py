"""ListConfigResources: the topics and brokers there are, groups that have settings of their own,
and subscriptions to metrics of clients (KIP-714). v0 asks for these only."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.kernel.errors import ErrorCode
from ottla.kernel.slices import Slices
from ottla.server.context import RequestContext
from ottla.server.resources import ResourceType
from ottla.server.services import Services
from ottla.wire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)


async def handle(
    services: Services, request: ListConfigResourcesRequest, context: RequestContext
) -> ListConfigResourcesResponse:
    slices = Slices(services.clock)
    wanted = set(request.resource_types) or set(ResourceType)
    if context.api_version == 0:
        wanted = {ResourceType.CLIENT_METRICS}
    if not wanted <= set(ResourceType):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_name=name, resource_type=kind)
            for kind in ResourceType
            if kind in wanted
            async for name in slices.of(_names(services, kind))
        ]
    )


def _names(services: Services, kind: ResourceType) -> Iterable[str]:
    image = services.image
    match kind:
        case ResourceType.TOPIC:
            return list(image.topics)
        case ResourceType.BROKER | ResourceType.BROKER_LOGGER:
            return [str(broker_id) for broker_id in image.brokers]
        case ResourceType.CLIENT_METRICS:
            return list(image.client_metrics_configs)
        case ResourceType.GROUP:
            return list(image.group_configs)
