"""What both ways to change settings do alike, seen by a client of either."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ottla.coordination import znodes
from ottla.coordination.store import NO_OWNER, Create, Set
from ottla.kernel.errors import ErrorCode
from ottla.wire.messages import alter_configs, incremental_alter_configs
from ottla.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tests.support.other_broker import OTHER, add_other_broker, elect_other, image_of
from tests.support.simulated_broker import SimulatedBroker, make_batch, with_broker

TOPIC, BROKER, BROKER_LOGGER, GROUP = 2, 4, 8, 32

Change = tuple[int, str, str, str]
"""(type of the resource, its name, a setting, its value)"""

APIS: tuple[tuple[Any, Any, Any], ...] = (
    (alter_configs, AlterConfigsRequest, AlterConfigsResponse),
    (
        incremental_alter_configs,
        IncrementalAlterConfigsRequest,
        IncrementalAlterConfigsResponse,
    ),
)

with_both = pytest.mark.parametrize("api", APIS, ids=["alter", "incremental"])


async def change(
    broker: SimulatedBroker,
    api: tuple[Any, Any, Any],
    *changes: Change,
    validate_only: bool = False,
) -> list[ErrorCode]:
    messages, request_class, response_class = api
    request = request_class(
        resources=[
            messages.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[messages.AlterableConfig(name=setting, value=value)],
            )
            for kind, name, setting, value in changes
        ],
        validate_only=validate_only,
    )
    responses = (await broker.call(request, response_class)).responses
    assert [(one.resource_type, one.resource_name) for one in responses] == [
        (kind, name) for kind, name, _, _ in changes
    ]
    for one in responses:
        assert bool(one.error_message) == (one.error_code != ErrorCode.NONE)
    return [ErrorCode(one.error_code) for one in responses]


async def produce_large(broker: SimulatedBroker) -> int:
    return (await broker.produce_batch("t", make_batch(b"x" * 1000))).error_code


@with_both
@pytest.mark.parametrize(
    "asked",
    [
        (TOPIC, "t", "max.message.bytes", "500"),
        (BROKER, "1", "message.max.bytes", "500"),
        (BROKER, "", "message.max.bytes", "500"),
    ],
    ids=["topic", "broker", "all brokers"],
)
def test_a_change_holds_when_it_is_answered(api: tuple[Any, Any, Any], asked: Change) -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        assert await change(broker, api, asked, validate_only=True) == [ErrorCode.NONE]
        assert await produce_large(broker) == ErrorCode.NONE
        assert await change(broker, api, asked) == [ErrorCode.NONE]
        assert await produce_large(broker) == ErrorCode.MESSAGE_TOO_LARGE
        await broker.restart()
        assert await produce_large(broker) == ErrorCode.MESSAGE_TOO_LARGE

    with_broker(test)


@with_both
@pytest.mark.parametrize(
    ("refused", "code"),
    [
        ((TOPIC, "t", "retention.ms", "soon"), ErrorCode.INVALID_CONFIG),
        ((TOPIC, "missing", "retention.ms", "1"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ((TOPIC, "", "retention.ms", "1"), ErrorCode.INVALID_REQUEST),
        ((TOPIC, "a b", "retention.ms", "1"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        ((BROKER, "2", "message.max.bytes", "1"), ErrorCode.INVALID_REQUEST),
        ((BROKER, "1", "broker.id", "5"), ErrorCode.INVALID_REQUEST),
        ((BROKER, "", "message.max.bytes", "many"), ErrorCode.INVALID_REQUEST),
        ((BROKER_LOGGER, "1", "root", "DEBUG"), ErrorCode.INVALID_REQUEST),
        ((GROUP, "g", "consumer.session.timeout.ms", "1"), ErrorCode.INVALID_CONFIG),
        ((GROUP, "", "consumer.session.timeout.ms", "50000"), ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_cannot_be_changed_is_refused_and_the_rest_is_changed(
    api: tuple[Any, Any, Any], refused: Change, code: ErrorCode
) -> None:
    async def test(broker: SimulatedBroker) -> None:
        for name in ("t", "good"):
            await broker.create_topic(name)
        good = (TOPIC, "good", "retention.ms", "1")
        assert await change(broker, api, refused, good) == [code, ErrorCode.NONE]

    with_broker(test)


@with_both
@pytest.mark.parametrize("group", ["g", "a/b", "."])
def test_members_hear_of_a_change_of_their_group(api: tuple[Any, Any, Any], group: str) -> None:
    async def interval_ms(broker: SimulatedBroker) -> int:
        request = ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id="m",
            rebalance_timeout_ms=1000,
            subscribed_topic_names=["t"],
            topic_partitions=[],
        )
        response = await broker.call(request, ConsumerGroupHeartbeatResponse)
        assert response.error_code == ErrorCode.NONE
        return response.heartbeat_interval_ms

    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        find = FindCoordinatorRequest(coordinator_keys=[group])
        found = await broker.call(find, FindCoordinatorResponse)
        assert found.coordinators[0].error_code == ErrorCode.NONE
        asked = (GROUP, group, "consumer.heartbeat.interval.ms", "7000")
        assert await interval_ms(broker) == 5000
        assert await change(broker, api, asked, validate_only=True) == [ErrorCode.NONE]
        assert await interval_ms(broker) == 5000
        assert await change(broker, api, asked) == [ErrorCode.NONE]
        assert await interval_ms(broker) == 7000
        assert await broker.own_config(GROUP, group) == {asked[2]: "7000"}
        await broker.restart()
        assert await broker.own_config(GROUP, group) == {asked[2]: "7000"}

    with_broker(test)


@with_both
def test_a_resource_that_comes_twice_is_refused(api: tuple[Any, Any, Any]) -> None:
    async def test(broker: SimulatedBroker) -> None:
        for name in ("t", "u"):
            await broker.create_topic(name)
        codes = await change(
            broker,
            api,
            (TOPIC, "t", "max.message.bytes", "500"),
            (TOPIC, "u", "max.message.bytes", "500"),
            (TOPIC, "t", "max.message.bytes", "600"),
        )
        assert codes == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE, ErrorCode.INVALID_REQUEST]
        assert await produce_large(broker) == ErrorCode.NONE

    with_broker(test)


@with_both
def test_another_controller_makes_the_changes(api: tuple[Any, Any, Any]) -> None:
    async def test(broker: SimulatedBroker) -> None:
        messages, request_class, response_class = api
        await broker.create_topic("t")
        cluster = elect_other(broker)

        def answer(node_id: int, request: Any) -> Any:
            assert request.validate_only
            return response_class(
                responses=[
                    messages.AlterConfigsResourceResponse(
                        resource_type=one.resource_type,
                        resource_name=one.resource_name,
                        error_code=ErrorCode.POLICY_VIOLATION if one.resource_name == "u" else 0,
                        error_message="no" if one.resource_name == "u" else None,
                    )
                    for one in reversed(request.resources)
                ]
            )

        cluster.answers[request_class] = answer
        changes: list[Change] = [
            (TOPIC, "t", "retention.ms", "5"),
            (BROKER, "2", "log.retention.ms", "5"),
            (TOPIC, "u", "retention.ms", "5"),
            (BROKER, "1", "log.retention.ms", "5"),
        ]
        assert await change(broker, api, *changes, validate_only=True) == [
            ErrorCode.NONE,
            ErrorCode.INVALID_REQUEST,
            ErrorCode.POLICY_VIOLATION,
            ErrorCode.NONE,
        ]
        ((_, asked, _),) = cluster.asked
        names = [one.resource_name for one in asked.resources]  # type: ignore[attr-defined]
        assert names == ["t", "u", "1"], "whose broker it is was asked for is seen here"

        cluster.answers[request_class] = lambda *_: response_class()
        assert await change(broker, api, changes[0]) == [ErrorCode.UNKNOWN_SERVER_ERROR]
        cluster.stop(OTHER)
        cluster.connections[-1].transport.close()
        await asyncio.sleep(1)
        assert await change(broker, api, *changes[:2]) == [
            ErrorCode.NETWORK_EXCEPTION,
            ErrorCode.INVALID_REQUEST,
        ]

    with_broker(test)


@with_both
def test_the_controller_changes_the_settings_of_any_broker(api: tuple[Any, Any, Any]) -> None:
    async def test(broker: SimulatedBroker) -> None:
        add_other_broker(broker)
        setting = ("log.cleaner.threads", "3")
        assert await change(broker, api, (BROKER, "2", *setting)) == [ErrorCode.NONE]
        assert await change(broker, api, (BROKER, "3", *setting)) == [ErrorCode.INVALID_REQUEST]
        assert image_of(broker).broker_configs[2] == {setting[0]: setting[1]}

    with_broker(test)


@with_both
def test_what_the_controller_has_changed_holds_here_when_it_is_answered(api: Any) -> None:
    async def test(broker: SimulatedBroker) -> None:
        messages, request_class, response_class = api
        await broker.create_topic("t")
        cluster = elect_other(broker)

        def answer(node_id: int, request: Any) -> Any:
            path = znodes.topic_config_path("t")
            notification = Create(
                znodes.CONFIG_CHANGE_PREFIX, znodes.encode_config_change(path), sequential=True
            )
            config = znodes.encode_config({"retention.ms": "5"})
            broker.ensemble.multi(NO_OWNER, [Set(path, config), notification])
            made = messages.AlterConfigsResourceResponse(resource_type=TOPIC, resource_name="t")
            return response_class(responses=[made])

        cluster.answers[request_class] = answer
        assert await change(broker, api, (TOPIC, "t", "retention.ms", "5")) == [ErrorCode.NONE]
        assert await broker.own_config(TOPIC, "t") == {"retention.ms": "5"}
        assert broker.machine.broker.replicas.partition("t", 0).log.config.retention_ms == 5

    with_broker(test)
