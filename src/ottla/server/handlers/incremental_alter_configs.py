"""IncrementalAlterConfigs: changes single settings and leaves the others (KIP-339)."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.config.alter import (
    ConfigChange,
    RelevantChanges,
    alter_broker,
    alter_client_metrics,
    alter_group,
    alter_topic,
)
from ottla.controller.configs import Plan
from ottla.server.config_changes import change_configs
from ottla.server.context import RequestContext
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
    async def forward(resources: list[AlterConfigsResource]) -> list[AlterConfigsResourceResponse]:
        passed_on = IncrementalAlterConfigsRequest(
            resources=resources, validate_only=request.validate_only
        )
        return (await services.forwarding.ask(passed_on, IncrementalAlterConfigsResponse)).responses

    responses = await change_configs(
        services,
        request.resources,
        _Alteration(services),
        AlterConfigsResourceResponse,
        forward,
        validate_only=request.validate_only,
    )
    return IncrementalAlterConfigsResponse(responses=responses)


class _Alteration:
    def __init__(self, services: Services) -> None:
        self._services = services

    def changes(self, resource: AlterConfigsResource) -> Iterator[ConfigChange]:
        return (ConfigChange(one.name, one.config_operation, one.value) for one in resource.configs)

    def plan_topic(self, changes: RelevantChanges) -> Plan:
        return lambda old: alter_topic(old, changes.of(old), self._services.config)

    def plan_broker(self, resource: AlterConfigsResource, *, per_broker: bool) -> Plan:
        return lambda old: alter_broker(
            old, list(self.changes(resource)), self._services.config, per_broker=per_broker
        )

    def plan_group(self, changes: RelevantChanges) -> Plan:
        return lambda old: alter_group(old, changes.of(old), self._services.config)

    def plan_client_metrics(self, changes: RelevantChanges) -> Plan:
        return lambda old: alter_client_metrics(old, changes.of(old))
