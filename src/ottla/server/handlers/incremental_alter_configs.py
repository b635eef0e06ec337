"""IncrementalAlterConfigs: changes single settings and leaves the others (KIP-339)."""

from __future__ import annotations

from collections import Counter
from functools import partial

from ottla.kernel.config.alter import ConfigChange, alter_broker, alter_topic
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.server.context import RequestContext
from ottla.server.resources import ResourceType, broker_of, check_topic, resource_type
from ottla.server.services import Services
from ottla.wire.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


async def handle(
    services: Services, request: IncrementalAlterConfigsRequest, context: RequestContext
) -> IncrementalAlterConfigsResponse:
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
            await _alter(services, resource, request.validate_only)
        except KafkaError as error:
            response.error_code = error.code
            response.error_message = error.message
    await services.changes_applied()
    return IncrementalAlterConfigsResponse(responses=responses)


async def _alter(services: Services, resource: AlterConfigsResource, validate_only: bool) -> None:
    changes = [ConfigChange(one.name, one.config_operation, one.value) for one in resource.configs]
    name = resource.resource_name
    if resource_type(resource.resource_type) is ResourceType.TOPIC:
        check_topic(services, name)
        plan = partial(alter_topic, changes=changes, broker=services.config)
        await services.configs.change_topic(name, plan, validate_only=validate_only)
    else:
        broker_id = broker_of(services, name)
        plan = partial(
            alter_broker,
            changes=changes,
            broker=services.config,
            per_broker=broker_id is not None,
        )
        await services.configs.change_broker(broker_id, plan, validate_only=validate_only)
