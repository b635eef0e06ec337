"""Settings of groups: Ottla and Apache Kafka answer alike, and members hear of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ottla.server.resources import ResourceType
from ottla.wire.messages import alter_configs, incremental_alter_configs
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.wire.messages.list_config_resources import ListConfigResourcesRequest
from tests.support.raw_group import wait_for_coordinator
from tests.support.side_by_side import Both, Subject, assert_alike

GROUP = ResourceType.GROUP
SET, DELETE, APPEND, SUBTRACT = range(4)
SESSION, BEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
PAUSE = "consumer.assignment.interval.ms"
TIMEOUT_S = 30

Change = tuple[str, int, str | None]


def describe(subject: Subject, group: str, *names: str, version: int = 4, **options: bool) -> Any:
    resource = DescribeConfigsResource(
        resource_type=GROUP, resource_name=group, configuration_keys=list(names) or None
    )
    request = DescribeConfigsRequest(resources=[resource], **options)
    (result,) = subject.ask(request, version).results
    # Kafka has settings of share groups and of Streams groups too, and lists all in no order.
    of_consumers = [one for one in result.configs if one.name.startswith("consumer.")]
    result.configs = sorted(of_consumers, key=lambda one: str(one.name))
    result.error_message = result.error_message or None
    return result


def alter(subject: Subject, group: str, *changes: Change, validate_only: bool = False) -> Any:
    resource = incremental_alter_configs.AlterConfigsResource(
        resource_type=GROUP,
        resource_name=group,
        configs=[
            incremental_alter_configs.AlterableConfig(
                name=name, config_operation=operation, value=value
            )
            for name, operation, value in changes
        ],
    )
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(
        resources=[resource], validate_only=validate_only
    )
    return subject.ask(request).responses


def replace(subject: Subject, group: str, **configs: str | None) -> Any:
    """Names with underscores for dots."""
    resource = alter_configs.AlterConfigsResource(
        resource_type=GROUP,
        resource_name=group,
        configs=[
            alter_configs.AlterableConfig(name=name.replace("_", "."), value=value)
            for name, value in configs.items()
        ],
    )
    return subject.ask(alter_configs.AlterConfigsRequest(resources=[resource])).responses


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Apache Kafka answers before its broker has heard of a change."""
    deadline_s = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline_s, f"not in time: {what}"
        time.sleep(0.02)


def wait_until_set(subject: Subject, group: str, name: str, value: str) -> None:
    def is_set() -> bool:
        (found,) = describe(subject, group, name).configs
        return bool(found.value == value)

    wait_until(is_set, f"{name}={value}")


@pytest.mark.parametrize("version", [1, 3, 4])
def test_described_without_settings(both: Both, topic: str, version: int) -> None:
    def scenario(subject: Subject) -> Iterator[Any]:
        yield describe(subject, topic, version=version)
        yield describe(subject, topic, version=version, include_synonyms=True)
        yield describe(subject, topic, SESSION, "x", version=version)
        if version >= 3:
            yield describe(subject, topic, include_documentation=True)
        yield describe(subject, "", version=version)

    assert_alike(both, lambda subject: list(scenario(subject)))


CHANGES: list[list[Change]] = [
    [(SESSION, SET, value)]
    for value in ("44999", "45000", "60000", "60001", "abc", "", "0", "-1", " 50000 ")
]
CHANGES += [[(BEAT, SET, value)] for value in ("4999", "5000", "15001", "15000")]
CHANGES += [[(PAUSE, SET, value)] for value in ("-1", "15001", "0", "7")]
CHANGES += [
    [(SESSION, APPEND, "1")],
    [(SESSION, SUBTRACT, "1")],
    [(SESSION, SET, None)],
    [(SESSION, SET, "46000"), (SESSION, SET, "47000")],
    [(SESSION, SET, "1"), (BEAT, SET, "6000")],
    [("no.such.setting", SET, "1")],
    [("no.such.setting", DELETE, None)],
    [(BEAT, DELETE, None), (PAUSE, SET, "8")],
]


def test_altered(both: Both, topic: str) -> None:
    def scenario(subject: Subject) -> Iterator[Any]:
        for group in (topic, f"{topic}/a b"):
            for changes in CHANGES:
                yield [str(changes), *alter(subject, group, *changes)]
        yield alter(subject, "", (SESSION, SET, "55000"))
        yield alter(subject, topic, (SESSION, SET, "55000"), validate_only=True)
        for group in (topic, f"{topic}/a b"):
            wait_until_set(subject, group, PAUSE, "8")
            yield describe(subject, group, include_synonyms=True)

    found = assert_alike(both, lambda subject: list(scenario(subject)))
    assert [one["value"] for one in found[-1]["configs"]] == ["8", "5000", "50000"]


def test_replaced(both: Both, topic: str) -> None:
    def scenario(subject: Subject) -> Iterator[Any]:
        yield alter(subject, topic, (BEAT, SET, "6000"), (SESSION, SET, "46000"))
        yield replace(subject, topic, consumer_session_timeout_ms="1")
        yield replace(subject, topic, consumer_session_timeout_ms=None)
        yield replace(subject, topic, no_such_setting="1")
        yield replace(subject, "", consumer_session_timeout_ms="47000")
        yield replace(subject, topic, consumer_session_timeout_ms="47000")
        wait_until_set(subject, topic, SESSION, "47000")
        yield describe(subject, topic, include_synonyms=True)

    assert_alike(both, lambda subject: list(scenario(subject)))


def test_groups_with_settings_are_listed(both: Both, topic: str) -> None:
    def listed(subject: Subject, *types: int, version: int = 1) -> Any:
        request = ListConfigResourcesRequest(resource_types=list(types))
        response = subject.ask(request, version)
        # The brokers are shared with other tests.
        response.config_resources = sorted(
            (one.resource_type, one.resource_name)
            for one in response.config_resources
            if topic in one.resource_name
        )
        return response.error_code, response.config_resources

    def scenario(subject: Subject) -> Iterator[Any]:
        subject.create(topic)
        alter(subject, topic, (SESSION, SET, "46000"))
        wait_until(lambda: len(listed(subject, GROUP)[1]) == 1, "it is listed")
        yield listed(subject)
        yield listed(subject, GROUP, ResourceType.TOPIC)
        yield listed(subject, ResourceType.CLIENT_METRICS)
        yield listed(subject, 3)
        yield listed(subject, version=0)
        alter(subject, topic, (SESSION, DELETE, None))
        wait_until(lambda: not listed(subject, GROUP)[1], "it is no longer listed")

    assert_alike(both, lambda subject: list(scenario(subject)))


def test_members_hear_of_a_change(both: Both, topic: str) -> None:
    def scenario(subject: Subject) -> list[int]:
        subject.create(topic)
        wait_for_coordinator(subject.ask, topic)
        told: list[int] = []

        def is_told(interval_ms: int) -> bool:
            request = ConsumerGroupHeartbeatRequest(
                group_id=topic,
                member_id="AAAAAAAAAAAAAAAAAAAAAA",
                rebalance_timeout_ms=1000,
                subscribed_topic_names=[topic],
                topic_partitions=[],
            )
            response = subject.ask(request)
            assert response.error_code == 0, response
            if response.heartbeat_interval_ms not in told:
                told.append(response.heartbeat_interval_ms)
            return bool(response.heartbeat_interval_ms == interval_ms)

        assert is_told(5000)
        alter(subject, topic, (BEAT, SET, "6000"))
        wait_until(lambda: is_told(6000), "the interval of the group")
        alter(subject, topic, (BEAT, DELETE, None))
        wait_until(lambda: is_told(5000), "the interval of the broker again")
        return told

    assert assert_alike(both, scenario) == [5000, 6000]
