from __future__ import annotations

from collections.abc import Mapping

import pytest

from ottla.controller.topics import NewTopic
from ottla.coordination.image import BrokerConfigChanged, GroupConfigChanged, TopicConfigChanged
from ottla.kernel.errors import ErrorCode, KafkaError
from tests.unit.controller.cluster import Cluster, run


def with_retention(old: Mapping[str, str]) -> dict[str, str]:
    return {**old, "retention.ms": "5"}


def test_settings_of_a_topic_are_stored_shown_and_told() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.controller.topics.create(NewTopic("t", config={"retention.ms": "1"}))
        config = await cluster.controller.configs.change_topic("t", with_retention)
        assert config == {"retention.ms": "5"}
        assert cluster.image.topic_configs["t"] == config
        assert cluster.changes[1:] == [TopicConfigChanged("t", config)]
        stored = await cluster.store.get("/config/topics/t")
        assert stored.data == b'{"version":1,"config":{"retention.ms":"5"}}'

    run(scenario)


@pytest.mark.parametrize(("broker_id", "node"), [(1, "1"), (None, "<default>")])
def test_settings_of_one_and_of_every_broker(broker_id: int | None, node: str) -> None:
    async def scenario(cluster: Cluster) -> None:
        configs = cluster.controller.configs
        await configs.change_broker(broker_id, lambda old: {"a": "1"})
        config = await configs.change_broker(broker_id, lambda old: {**old, "b": "2"})
        assert config == {"a": "1", "b": "2"}
        assert cluster.changes[1:] == [BrokerConfigChanged(broker_id, config)]
        stored = await cluster.store.get(f"/config/brokers/{node}")
        assert stored.data == b'{"version":1,"config":{"a":"1","b":"2"}}'

    run(scenario)


def test_validate_only_answers_and_does_nothing() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.controller.topics.create(NewTopic("t"))
        before = await cluster.store.tree("/")
        configs = cluster.controller.configs
        planned = await configs.change_topic("t", with_retention, validate_only=True)
        assert planned == {"retention.ms": "5"}
        await configs.change_broker(1, with_retention, validate_only=True)
        assert await cluster.store.tree("/") == before
        assert len(cluster.changes) == 1

    run(scenario)


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        ("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("", ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_is_no_topic_has_kafkas_code(topic: str, code: ErrorCode) -> None:
    async def scenario(cluster: Cluster) -> None:
        with pytest.raises(KafkaError) as caught:
            await cluster.controller.configs.change_topic(topic, with_retention)
        assert caught.value.code is code

    run(scenario)


def test_a_plan_that_refuses_changes_nothing() -> None:
    def refuse(old: Mapping[str, str]) -> dict[str, str]:
        raise KafkaError(ErrorCode.INVALID_CONFIG, "no")

    async def scenario(cluster: Cluster) -> None:
        await cluster.controller.topics.create(NewTopic("t"))
        before = await cluster.store.tree("/")
        with pytest.raises(KafkaError):
            await cluster.controller.configs.change_topic("t", refuse)
        with pytest.raises(KafkaError):
            await cluster.controller.configs.change_broker(None, refuse)
        assert await cluster.store.tree("/") == before

    run(scenario)


def test_settings_of_a_group_go_with_the_last_one() -> None:
    async def scenario(cluster: Cluster) -> None:
        configs = cluster.controller.configs
        assert await configs.change_group("a/b", lambda old: {"x": "1"}) == {"x": "1"}
        assert cluster.image.group_configs == {"a/b": {"x": "1"}}
        stored = await cluster.store.get("/config/groups/a%2Fb")
        assert stored.data == b'{"version":1,"config":{"x":"1"}}'
        await configs.change_group("a/b", lambda old: {**old, "y": "2"})
        await configs.change_group("a/b", lambda old: {}, validate_only=True)
        assert cluster.image.group_configs == {"a/b": {"x": "1", "y": "2"}}
        await configs.change_group("a/b", lambda old: {})
        await configs.change_group("never", lambda old: {})
        assert await cluster.store.children("/config/groups") == []
        assert cluster.changes[-1] == GroupConfigChanged("a/b", {})
        assert cluster.image.group_configs == {}

    run(scenario)
