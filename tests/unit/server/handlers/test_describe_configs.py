from __future__ import annotations

import pytest

from ottla import __version__
from ottla.config.definition import ConfigSource, ConfigType
from ottla.kernel.errors import ErrorCode
from ottla.server.handlers.describe_configs import RESOURCE_COUNT_MAX
from ottla.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from tests.support.simulated_broker import SimulatedBroker, with_broker

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
OLDEST, NEWEST = 1, 4


async def describe(
    broker: SimulatedBroker,
    kind: int,
    name: str,
    *keys: str,
    version: int = NEWEST,
    wants_more: bool = False,
) -> DescribeConfigsResult:
    resource = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=list(keys) or None
    )
    request = DescribeConfigsRequest(
        resources=[resource],
        include_synonyms=wants_more,
        include_documentation=wants_more and version >= 3,
    )
    (result,) = (await broker.call(request, DescribeConfigsResponse, version)).results
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result


@pytest.mark.parametrize("version", [OLDEST, 3, NEWEST])
def test_each_value_says_where_it_comes_from(version: int) -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t", retention_ms="1000")
        result = await describe(broker, TOPIC, "t", version=version)
        values = {one.name: (one.value, one.config_source) for one in result.configs}
        assert values["retention.ms"] == ("1000", ConfigSource.TOPIC_CONFIG)
        assert values["segment.bytes"] == ("20000000", ConfigSource.STATIC_BROKER_CONFIG)
        assert values["cleanup.policy"] == ("delete", ConfigSource.DEFAULT_CONFIG)

    with_broker(test, log_segment_bytes="20000000")


def test_synonyms_types_and_documentation_come_when_asked_for() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t", segment_bytes="30000000")
        (plain,) = (await describe(broker, TOPIC, "t", "segment.bytes")).configs
        assert (plain.synonyms, plain.documentation) == ([], None)
        assert plain.config_type == ConfigType.INT
        for version in (OLDEST, NEWEST):
            result = await describe(
                broker, TOPIC, "t", "segment.bytes", version=version, wants_more=True
            )
            (told,) = result.configs
            assert [(one.name, one.value, one.source) for one in told.synonyms] == [
                ("segment.bytes", "30000000", ConfigSource.TOPIC_CONFIG),
                ("log.segment.bytes", "20000000", ConfigSource.STATIC_BROKER_CONFIG),
                ("log.segment.bytes", "1073741824", ConfigSource.DEFAULT_CONFIG),
            ]
            assert bool(told.documentation) == (version >= 3)

    with_broker(test, log_segment_bytes="20000000")


def test_settings_of_this_broker_and_of_all() -> None:
    async def test(broker: SimulatedBroker) -> None:
        result = await describe(broker, BROKER, "1", "num.partitions", "broker.id")
        values = {one.name: (one.value, one.read_only) for one in result.configs}
        assert values["num.partitions"][0] == "4"
        assert values["broker.id"] == ("1", True)
        assert (await describe(broker, BROKER, "")).configs == []

    with_broker(test, num_partitions="4")


def test_a_broker_tells_its_version() -> None:
    async def test(broker: SimulatedBroker) -> None:
        (version,) = (await describe(broker, BROKER, "1", "ottla.version")).configs
        assert (version.value, version.read_only) == (__version__, True)
        everything = (await describe(broker, BROKER, "1")).configs
        assert [one.value for one in everything if one.name == version.name] == [__version__]

    with_broker(test)


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "missing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "2", ErrorCode.INVALID_REQUEST),
        (BROKER, "one", ErrorCode.INVALID_REQUEST),
        (BROKER_LOGGER, "1", ErrorCode.INVALID_REQUEST),
        (GROUP, "", ErrorCode.INVALID_REQUEST),
        (99, "x", ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_has_no_settings_here_is_an_error_of_its_own(
    kind: int, name: str, code: ErrorCode
) -> None:
    async def test(broker: SimulatedBroker) -> None:
        result = await describe(broker, kind, name)
        assert (result.error_code, result.configs) == (code, [])
        assert result.error_message

    with_broker(test)


def test_an_unknown_kind_of_resource_has_the_whole_request_refused() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        resources = [
            DescribeConfigsResource(resource_type=kind, resource_name="t") for kind in (TOPIC, 99)
        ]
        request = DescribeConfigsRequest(resources=resources)
        found = (await broker.call(request, DescribeConfigsResponse)).results
        assert [one.error_code for one in found] == [ErrorCode.INVALID_REQUEST] * 2
        assert [one.resource_name for one in found] == ["t", "t"]

    with_broker(test)


def test_a_subscription_to_metrics_of_clients() -> None:
    async def test(broker: SimulatedBroker) -> None:
        result = await describe(broker, CLIENT_METRICS, "any")
        shown = {one.name: (one.value, one.config_source) for one in result.configs}
        assert shown == {"interval.ms": ("300000", 5), "match": ("", 5), "metrics": ("", 5)}
        refused = await describe(broker, CLIENT_METRICS, "")
        assert refused.error_code == ErrorCode.INVALID_REQUEST

    with_broker(test)


def test_what_is_asked_for_many_times_is_described_a_hundred_times() -> None:
    """One short name, half a million times, would be answered with gigabytes."""

    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        everything = DescribeConfigsResource(resource_type=TOPIC, resource_name="t")
        everything.configuration_keys = None
        one = DescribeConfigsResource(
            resource_type=TOPIC, resource_name="t", configuration_keys=["retention.ms"]
        )
        request = DescribeConfigsRequest(resources=[*[everything] * 1000, one, everything])
        found = (await broker.call(request, DescribeConfigsResponse)).results
        described, refused, (last_one, last) = found[:101], found[101:1000], found[1000:]
        assert all(len(result.configs) > 1 for result in described)
        assert {result.error_code for result in (*refused, last)} == {ErrorCode.INVALID_REQUEST}
        assert len(last_one.configs) == 1

    with_broker(test)


def test_a_request_describes_so_many_resources_and_no_more() -> None:
    """Any name can be that of a group, so there is no end of them."""

    async def test(broker: SimulatedBroker) -> None:
        names = [f"g{number}" for number in range(RESOURCE_COUNT_MAX + 2)]
        resources = [
            DescribeConfigsResource(
                resource_type=GROUP, resource_name=name, configuration_keys=["none"]
            )
            for name in names
        ]
        request = DescribeConfigsRequest(resources=resources)
        found = (await broker.call(request, DescribeConfigsResponse)).results
        refused = [result.resource_name for result in found if result.error_code]
        assert refused == names[-2:]
        assert found[-1].error_code == ErrorCode.INVALID_REQUEST

    with_broker(test)
