"""What is common to both ways of changing settings is in test_config_changes.py."""

from __future__ import annotations

import pytest

from ottla.kernel.errors import ErrorCode
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tests.support.simulated_broker import SimulatedBroker, with_broker

TOPIC, BROKER, CLIENT_METRICS, GROUP = 2, 4, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)


async def alter(
    broker: SimulatedBroker,
    kind: int,
    name: str,
    *changes: tuple[int, str, str | None],
    version: int = 1,
) -> int:
    resource = AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[
            AlterableConfig(name=key, config_operation=operation, value=value)
            for operation, key, value in changes
        ],
    )
    request = IncrementalAlterConfigsRequest(resources=[resource])
    response = await broker.call(request, IncrementalAlterConfigsResponse, version)
    return response.responses[0].error_code


@pytest.mark.parametrize("version", [0, 1])
def test_only_what_is_named_changes(version: int) -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t", retention_ms="1", segment_ms="2")
        for change, expected in (
            ((SET, "retention.ms", "3"), {"retention.ms": "3", "segment.ms": "2"}),
            ((DELETE, "segment.ms", None), {"retention.ms": "3"}),
            (
                (APPEND, "cleanup.policy", "compact"),
                {"retention.ms": "3", "cleanup.policy": "delete,compact"},
            ),
            (
                (SUBTRACT, "cleanup.policy", "delete"),
                {"retention.ms": "3", "cleanup.policy": "compact"},
            ),
        ):
            assert await alter(broker, TOPIC, "t", change, version=version) == ErrorCode.NONE
            assert await broker.own_config(TOPIC, "t") == expected

    with_broker(test)


def test_settings_of_one_and_of_all_brokers_are_kept_apart() -> None:
    async def test(broker: SimulatedBroker) -> None:
        for name, value in (("", "5"), ("1", "6")):
            await alter(broker, BROKER, name, (SET, "message.max.bytes", value))
        assert await broker.own_config(BROKER, "1") == {"message.max.bytes": "6"}
        await alter(broker, BROKER, "1", (DELETE, "message.max.bytes", None))
        assert await broker.own_config(BROKER, "1") == {}
        assert await broker.own_config(BROKER, "") == {"message.max.bytes": "5"}

    with_broker(test)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ([(APPEND, "retention.ms", "2")], ErrorCode.INVALID_CONFIG),
        ([(SET, "retention.ms", None)], ErrorCode.INVALID_REQUEST),
        ([(4, "retention.ms", "2")], ErrorCode.INVALID_REQUEST),
        ([(SET, "segment.ms", "2"), (DELETE, "segment.ms", None)], ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_change_that_makes_no_sense_is_refused_with_all_of_its_resource(
    changes: list[tuple[int, str, str | None]], code: ErrorCode
) -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t", retention_ms="1")
        assert await alter(broker, TOPIC, "t", (SET, "delete.retention.ms", "9"), *changes) == code
        assert await broker.own_config(TOPIC, "t") == {"retention.ms": "1"}

    with_broker(test)


def test_a_subscription_to_metrics_is_kept_over_a_restart() -> None:
    async def test(broker: SimulatedBroker) -> None:
        changes = ((SET, "interval.ms", "1000"), (SET, "match", "client_id=a"))
        assert await alter(broker, CLIENT_METRICS, "a/b", *changes) == ErrorCode.NONE
        kept = {"interval.ms": "1000", "match": "client_id=a"}
        assert await broker.own_config(CLIENT_METRICS, "a/b") == kept
        await broker.restart()
        assert await broker.own_config(CLIENT_METRICS, "a/b") == kept
        await alter(broker, CLIENT_METRICS, "a/b", *((DELETE, name, None) for name in kept))
        assert await broker.own_config(CLIENT_METRICS, "a/b") == {}

    with_broker(test)


@pytest.mark.parametrize(
    ("kind", "name", "change", "code"),
    [
        (CLIENT_METRICS, "", (SET, "metrics", "*"), ErrorCode.INVALID_REQUEST),
        (CLIENT_METRICS, "m", (APPEND, "metrics", "*"), ErrorCode.INVALID_CONFIG),
        # Where two things are wrong, this is said first, as in Kafka.
        (CLIENT_METRICS, "", (APPEND, "metrics", "*"), ErrorCode.INVALID_CONFIG),
        (GROUP, "", (APPEND, "consumer.session.timeout.ms", "1"), ErrorCode.INVALID_CONFIG),
        (TOPIC, "", (SUBTRACT, "retention.ms", "1"), ErrorCode.INVALID_CONFIG),
        (TOPIC, "a b", (SUBTRACT, "retention.ms", "1"), ErrorCode.INVALID_CONFIG),
        (TOPIC, "a b", (SET, "retention.ms", None), ErrorCode.INVALID_REQUEST),
        (TOPIC, "a b", (SET, "retention.ms", "x"), ErrorCode.INVALID_TOPIC_EXCEPTION),
    ],
)
def test_what_is_refused(
    kind: int, name: str, change: tuple[int, str, str | None], code: ErrorCode
) -> None:
    async def test(broker: SimulatedBroker) -> None:
        assert await alter(broker, kind, name, change) == code

    with_broker(test)
