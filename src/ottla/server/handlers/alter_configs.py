"""AlterConfigs: sets all settings of a resource at once; what is not named goes back to its
default. Kept for old clients: IncrementalAlterConfigs has taken its place."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.config.alter import (
    ConfigChange,
    RelevantChanges,
    replace_broker,
    replace_client_metrics,
    replace_group,
    replace_topic,
    set_changes,
)
from ottla.controller.configs import Plan
from ottla.server.config_changes import change_configs
from ottla.server.context import RequestContext
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
    async def forward(resources: list[AlterConfigsResource]) -> list[AlterConfigsResourceResponse]:
        passed_on = AlterConfigsRequest(resources=resources, validate_only=request.validate_only)
        return (await services.forwarding.ask(passed_on, AlterConfigsResponse)).responses

    responses = await change_configs(
        services,
        request.resources,
        _Replacement(services),
        AlterConfigsResourceResponse,
        forward,
        validate_only=request.validate_only,
    )
    return AlterConfigsResponse(responses=responses)


class _Replacement:
    def __init__(self, services: Services) -> None:
        self._services = services

    def changes(self, resource: AlterConfigsResource) -> Iterator[ConfigChange]:
        return set_changes((one.name, one.value) for one in resource.configs)

    def plan_topic(self, changes: RelevantChanges) -> Plan:
        return lambda _: replace_topic(changes.set(), self._services.config)

    def plan_broker(self, resource: AlterConfigsResource, *, per_broker: bool) -> Plan:
        return lambda _: replace_broker(
            [(one.name, one.value) for one in resource.configs],
            self._services.config,
            per_broker=per_broker,
        )

    def plan_group(self, changes: RelevantChanges) -> Plan:
        return lambda _: replace_group(changes.set(), self._services.config)

    def plan_client_metrics(self, changes: RelevantChanges) -> Plan:
        return lambda _: replace_client_metrics(changes.set())
