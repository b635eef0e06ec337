"""What is common to both ways of changing settings is in test_config_changes.py."""

from __future__ import annotations

import pytest

from ottla.kernel.errors import ErrorCode
from ottla.wire.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResponse,
)
from tests.support.simulated_broker import SimulatedBroker, with_broker

TOPIC, BROKER = 2, 4


async def alter(
    broker: SimulatedBroker,
    kind: int,
    name: str,
    *configs: tuple[str, str | None],
    version: int = 2,
) -> int:
    resource = AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[AlterableConfig(name=key, value=value) for key, value in configs],
    )
    request = AlterConfigsRequest(resources=[resource])
    return (await broker.call(request, AlterConfigsResponse, version)).responses[0].error_code


@pytest.mark.parametrize("version", [0, 1, 2])
def test_what_is_not_named_goes_back_to_its_default(version: int) -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t", retention_ms="1", segment_ms="2")
        assert await alter(broker, TOPIC, "t", ("retention.ms", "3"), version=version) == 0
        assert await broker.own_config(TOPIC, "t") == {"retention.ms": "3"}
        assert await alter(broker, TOPIC, "t", version=version) == 0
        assert await broker.own_config(TOPIC, "t") == {}

    with_broker(test)


def test_settings_of_a_broker_are_replaced_too() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await alter(broker, BROKER, "1", ("message.max.bytes", "5"), ("log.retention.ms", "6"))
        assert await broker.own_config(BROKER, "1") == {
            "message.max.bytes": "5",
            "log.retention.ms": "6",
        }
        await alter(broker, BROKER, "1", ("log.retention.ms", "7"))
        assert await broker.own_config(BROKER, "1") == {"log.retention.ms": "7"}

    with_broker(test)


def test_a_setting_without_value_or_named_twice_is_refused() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t", retention_ms="1")
        one = ("retention.ms", "2")
        for configs in ([("retention.ms", None)], [one, one]):
            assert await alter(broker, TOPIC, "t", *configs) == ErrorCode.INVALID_REQUEST
        assert await broker.own_config(TOPIC, "t") == {"retention.ms": "1"}

    with_broker(test)
