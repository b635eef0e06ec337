from __future__ import annotations

from ottla.kernel.errors import ErrorCode
from ottla.server.resources import ResourceType
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.wire.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from tests.support.simulated_broker import SimulatedBroker, with_broker

TOPIC, BROKER, LOGGER, METRICS, GROUP = ResourceType


async def listed(
    broker: SimulatedBroker, *types: int, version: int = 1
) -> tuple[int, set[tuple[int, str]]]:
    request = ListConfigResourcesRequest(resource_types=list(types) if version else [])
    response = await broker.call(request, ListConfigResourcesResponse, version)
    found = {(one.resource_type, one.resource_name) for one in response.config_resources}
    assert len(found) == len(response.config_resources)
    return response.error_code, found


async def set_session_timeout(broker: SimulatedBroker, group: str, operation: int) -> None:
    setting = AlterableConfig(
        name="consumer.session.timeout.ms", config_operation=operation, value="50000"
    )
    resource = AlterConfigsResource(resource_type=GROUP, resource_name=group, configs=[setting])
    request = IncrementalAlterConfigsRequest(resources=[resource])
    response = await broker.call(request, IncrementalAlterConfigsResponse)
    assert response.responses[0].error_code == ErrorCode.NONE


def test_what_has_settings() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        await set_session_timeout(broker, "g", 0)
        everything = {(TOPIC, "t"), (BROKER, "1"), (LOGGER, "1"), (GROUP, "g")}
        assert await listed(broker) == (ErrorCode.NONE, everything)
        assert await listed(broker, GROUP) == (ErrorCode.NONE, {(GROUP, "g")})
        assert await listed(broker, TOPIC, METRICS) == (ErrorCode.NONE, {(TOPIC, "t")})
        await set_session_timeout(broker, "g", 1)
        assert await listed(broker, GROUP) == (ErrorCode.NONE, set())

    with_broker(test)


def test_the_first_version_knows_client_metrics_only() -> None:
    async def test(broker: SimulatedBroker) -> None:
        assert await listed(broker, version=0) == (ErrorCode.NONE, set())
        await broker.create_topic("t")
        setting = AlterableConfig(name="metrics", config_operation=0, value="*")
        resource = AlterConfigsResource(
            resource_type=METRICS, resource_name="all", configs=[setting]
        )
        request = IncrementalAlterConfigsRequest(resources=[resource])
        await broker.call(request, IncrementalAlterConfigsResponse)
        assert await listed(broker, version=0) == (ErrorCode.NONE, {(METRICS, "all")})
        assert await listed(broker, METRICS) == (ErrorCode.NONE, {(METRICS, "all")})

    with_broker(test)


def test_what_has_none() -> None:
    async def test(broker: SimulatedBroker) -> None:
        assert await listed(broker, TOPIC, 3) == (ErrorCode.UNSUPPORTED_VERSION, set())

    with_broker(test)
