"""AlterConfigs: sets all settings of a resource at once; what is not named goes back to its
default. Kept for old clients: IncrementalAlterConfigs has taken its place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from ottla.kernel.config.alter import replace_broker, replace_topic
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.server.context import RequestContext
from ottla.server.resources import ResourceType, broker_of, check_topic, resource_type
from ottla.server.services import Services
from ottla.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


async def handle(
    services: Services, request: AlterConfigsRequest, context: RequestContext
) -> AlterConfigsResponse:
    counts = Counter((one.resource_type, one.resource_name) for one in request.resources)
    responses: list[AlterConfigsResourceResponse] = []
    for resource in request.resources:
        response = AlterConfigsResourceResponse(
            resource_type=resource.resource_type, resource_name=resource.resource_name
        )
        responses.append(response)
        try:
            if counts[resource.resource_type, resource.resource_name] > 1:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST, "Each resource must appear at most once."
                )
            await _replace(services, resource, request.validate_only)
        except KafkaError as error:
            response.error_code = error.code
            response.error_message = error.message
    await services.changes_applied()
    return AlterConfigsResponse(responses=responses)


async def _replace(services: Services, resource: AlterConfigsResource, validate_only: bool) -> None:
    configs = [(one.name, one.value) for one in resource.configs]
    name = resource.resource_name
    if resource_type(resource.resource_type) is ResourceType.TOPIC:
        check_topic(services, name)

        def plan_topic(_: Mapping[str, str]) -> dict[str, str]:
            return replace_topic(configs, services.config)

        await services.configs.change_topic(name, plan_topic, validate_only=validate_only)
        return
    broker_id = broker_of(services, name)

    def plan_broker(_: Mapping[str, str]) -> dict[str, str]:
        return replace_broker(configs, services.config, per_broker=broker_id is not None)

    await services.configs.change_broker(broker_id, plan_broker, validate_only=validate_only)
