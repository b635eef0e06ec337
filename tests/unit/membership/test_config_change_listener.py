from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import pytest

from ottla.coordination import znodes
from ottla.coordination.store import with_parents
from ottla.kernel.ids import TopicId
from ottla.membership.config_change_listener import (
    NOTIFICATIONS_KEPT,
    READ_ONE_BY_ONE_MAX,
    RETRY_S,
    ConfigChangeListener,
)
from ottla.metadata.image import (
    BrokerConfigChanged,
    Change,
    ClientMetricsConfigChanged,
    GroupConfigChanged,
    PartitionImage,
    TopicConfigChanged,
    TopicCreated,
    TopicImage,
)
from ottla.metadata.loading import load_image
from ottla.testing.loop import VirtualLoop, run_virtual
from ottla.testing.store import MemoryEnsemble, MemoryStore

ID_A, ID_B = TopicId(b"a" * 16), TopicId(b"b" * 16)


class Cluster:
    """A broker that follows settings, and a tool that changes them."""

    def __init__(self) -> None:
        self.ensemble = MemoryEnsemble()
        self.tool = MemoryStore(self.ensemble)
        self.store = MemoryStore(self.ensemble)
        self.listener = ConfigChangeListener(self.store)
        self.changes: list[Change] = []

    async def start(self) -> None:
        for store in (self.tool, self.store):
            await store.open()
        for full_path in znodes.PERSISTENT_PATHS:
            for path in with_parents(full_path):
                if not await self.tool.exists(path):
                    await self.tool.create(path)

    async def follow(self) -> None:
        await self.listener.begin()
        self.image = await load_image(self.store)
        self.image.on_change(self.changes.append)
        self.listener.follow(self.image)
        await settled()

    async def put(self, entity: str, config: Mapping[str, str]) -> None:
        """Without telling anybody."""
        path, data = f"/config/{entity}", znodes.encode_config(config)
        if await self.tool.exists(path):
            await self.tool.set(path, data)
        else:
            await self.tool.create(path, data)

    async def notify(self, content: object) -> str:
        data = json.dumps(content).encode()
        return await self.tool.create(znodes.CONFIG_CHANGE_PREFIX, data, sequential=True)

    async def change(self, entity: str, config: Mapping[str, str]) -> str:
        """As Kafka's tools do."""
        await self.put(entity, config)
        return await self.notify({"version": 2, "entity_path": entity})


async def settled() -> None:
    await asyncio.sleep(RETRY_S / 2)


def with_cluster(scenario: Callable[[Cluster], Coroutine[Any, Any, None]]) -> None:
    async def main(loop: VirtualLoop) -> None:
        cluster = Cluster()
        await cluster.start()
        await scenario(cluster)
        await cluster.listener.close()

    run_virtual(main)


@pytest.mark.parametrize(
    ("entity", "change"),
    [
        ("topics/t", TopicConfigChanged("t", {"k": "v"})),
        ("brokers/<default>", BrokerConfigChanged(None, {"k": "v"})),
        ("brokers/1", BrokerConfigChanged(1, {"k": "v"})),
        ("groups/a%2Fb", GroupConfigChanged("a/b", {"k": "v"})),
        ("client-metrics/m", ClientMetricsConfigChanged("m", {"k": "v"})),
    ],
)
def test_a_change_is_heard_of(entity: str, change: Change) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.follow()
        await cluster.change(entity, {"k": "v"})
        await settled()
        assert cluster.changes == [change]

    with_cluster(scenario)


def test_what_was_changed_before_is_not_told_again() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.change("topics/t", {"k": "v"})
        await cluster.follow()
        await cluster.notify({"version": 2, "entity_path": "topics/t"})
        await settled()
        assert cluster.image.topic_configs == {"t": {"k": "v"}}
        assert cluster.changes == []

    with_cluster(scenario)


def test_what_is_changed_while_the_settings_are_loaded_is_heard_of() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.listener.begin()
        cluster.image = await load_image(cluster.store)
        await cluster.change("topics/t", {"k": "v"})
        await settled()
        cluster.listener.follow(cluster.image)
        await settled()
        assert cluster.image.topic_configs == {"t": {"k": "v"}}

    with_cluster(scenario)


def test_settings_that_are_gone_are_none() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.change("groups/g", {"k": "v"})
        await cluster.follow()
        await cluster.tool.delete("/config/groups/g")
        await cluster.notify({"version": 1, "entity_type": "groups", "entity_name": "g"})
        await settled()
        assert cluster.changes == [GroupConfigChanged("g", {})]

    with_cluster(scenario)


def test_what_is_of_no_concern_or_nonsense_is_passed_over() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.follow()
        await cluster.put("brokers/nobody", {"k": "v"})
        for content in (
            {"version": 2, "entity_path": "users/u"},
            {"version": 2, "entity_path": "users/u/clients/c"},
            {"version": 2, "entity_path": "topics/.."},
            {"version": 2, "entity_path": "brokers/nobody"},
            {"version": 2},
            "nonsense",
        ):
            await cluster.notify(content)
        await cluster.change("topics/t", {"k": "v"})
        await settled()
        assert cluster.changes == [TopicConfigChanged("t", {"k": "v"})]

    with_cluster(scenario)


def test_a_broker_that_was_away_for_long_reads_everything() -> None:
    async def scenario(cluster: Cluster) -> None:
        for name in ("gone", "same", "changed"):
            await cluster.change(f"topics/{name}", {"k": "v"})
        await cluster.follow()
        cluster.ensemble.disconnect(cluster.store)
        await cluster.tool.delete("/config/topics/gone")
        await cluster.put("topics/changed", {"k": "w"})
        for name in await cluster.tool.children(znodes.CONFIG_CHANGES):
            await cluster.tool.delete(f"{znodes.CONFIG_CHANGES}/{name}")
        await cluster.notify({"version": 2, "entity_path": "topics/same"})
        cluster.ensemble.reconnect(cluster.store)
        await settled()
        assert cluster.changes == [
            TopicConfigChanged("gone", {}),
            TopicConfigChanged("changed", {"k": "w"}),
        ]

    with_cluster(scenario)


def test_a_store_that_cannot_be_reached_is_asked_again() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.follow()
        cluster.ensemble.disconnect(cluster.store)
        shown = asyncio.ensure_future(
            cluster.listener.shows(await cluster.change("topics/t", {"k": "v"}))
        )
        await asyncio.sleep(RETRY_S * 2)
        assert not shown.done()
        cluster.ensemble.reconnect(cluster.store)
        await asyncio.sleep(RETRY_S * 2)
        assert shown.done()
        assert cluster.image.topic_configs == {"t": {"k": "v"}}

    with_cluster(scenario)


def test_a_new_session_hears_of_what_the_one_before_has_missed() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.follow()
        cluster.ensemble.expire(cluster.store)
        await cluster.change("topics/t", {"k": "v"})
        await settled()
        assert cluster.changes == []
        await cluster.store.open()
        await settled()
        assert cluster.changes == [TopicConfigChanged("t", {"k": "v"})]

    with_cluster(scenario)


def test_who_wants_to_see_what_others_have_changed_waits_for_it() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.follow()
        await cluster.listener.caught_up()
        await cluster.change("topics/t", {"k": "v"})
        await cluster.listener.caught_up()
        assert cluster.image.topic_configs == {"t": {"k": "v"}}

    with_cluster(scenario)


def test_nobody_waits_long_for_a_store_that_is_away() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.follow()
        await cluster.change("topics/t", {"k": "v"})
        cluster.ensemble.disconnect(cluster.store)
        await cluster.listener.caught_up()
        assert cluster.image.topic_configs == {}

    with_cluster(scenario)


def new_topic(cluster: Cluster, name: str, topic_id: TopicId) -> None:
    """As UpdateMetadata has it."""
    config = cluster.image.topic_configs.get(name, {})
    cluster.image.apply(TopicCreated(TopicImage(name, topic_id, (PartitionImage(0, ()),)), config))


def test_settings_of_a_new_topic_are_read_once() -> None:
    """They are written with the topic, and nobody is notified."""

    async def scenario(cluster: Cluster) -> None:
        await cluster.follow()
        await cluster.put("topics/t", {"k": "v"})
        await cluster.listener.read_topics({"t": ID_A, "without": ID_B})
        assert cluster.changes == [TopicConfigChanged("t", {"k": "v"})]
        # A second request tells of it before the picture shows it, and more after that.
        await cluster.put("topics/t", {"k": "unheard"})
        await cluster.listener.read_topics({"t": ID_A})
        new_topic(cluster, "t", ID_A)
        await cluster.listener.read_topics({"t": ID_A})
        assert cluster.image.topic_configs["t"] == {"k": "v"}

    with_cluster(scenario)


def test_a_topic_that_was_made_anew_has_its_own_settings() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.put("topics/t", {"k": "old"})
        await cluster.follow()
        new_topic(cluster, "t", ID_A)
        await cluster.put("topics/t", {"k": "new"})
        await cluster.listener.read_topics({"t": ID_B})
        assert cluster.image.topic_configs["t"] == {"k": "new"}
        await cluster.tool.delete("/config/topics/t")
        await cluster.listener.read_topics({"t": TopicId(b"c" * 16)})
        assert cluster.image.topic_configs["t"] == {}

    with_cluster(scenario)


def test_settings_of_very_many_new_topics_are_read_at_once() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.follow()
        names = [f"t{number}" for number in range(READ_ONE_BY_ONE_MAX + 1)]
        for name in names:
            await cluster.put(f"topics/{name}", {"k": name})
        await cluster.listener.read_topics(dict.fromkeys(names, ID_A))
        assert cluster.image.topic_configs == {name: {"k": name} for name in names}

    with_cluster(scenario)


def test_settings_of_a_new_topic_that_cannot_be_read_are_read_later() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.follow()
        await cluster.put("topics/t", {"k": "v"})
        cluster.ensemble.disconnect(cluster.store)
        await cluster.listener.read_topics({"t": ID_A})
        assert cluster.image.topic_configs == {}
        cluster.ensemble.reconnect(cluster.store)
        await asyncio.sleep(RETRY_S * 2)
        assert cluster.image.topic_configs == {"t": {"k": "v"}}

    with_cluster(scenario)


def test_old_notifications_go() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.follow()
        for number in range(5 * NOTIFICATIONS_KEPT):
            last = await cluster.change("topics/t", {"k": str(number)})
            await cluster.listener.shows(last)
            assert cluster.image.topic_configs == {"t": {"k": str(number)}}
        await settled()
        names = await cluster.tool.children(znodes.CONFIG_CHANGES)
        assert NOTIFICATIONS_KEPT <= len(names) <= 2 * NOTIFICATIONS_KEPT
        assert last.endswith(names[-1])

    with_cluster(scenario)


def test_who_waits_is_let_go_when_it_closes() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.follow()
        cluster.ensemble.disconnect(cluster.store)
        shown = asyncio.ensure_future(
            cluster.listener.shows(await cluster.change("topics/t", {"k": "v"}))
        )
        await settled()
        await cluster.listener.close()
        await asyncio.wait([shown])
        assert shown.cancelled()

    with_cluster(scenario)
