from __future__ import annotations

import asyncio

import pytest

from ottla.coordination.image import (
    BrokerConfigChanged,
    BrokerImage,
    BrokersChanged,
    Change,
    ClientMetricsConfigChanged,
    ClusterImage,
    ControllerChanged,
    GroupConfigChanged,
    PartitionImage,
    TopicChanged,
    TopicConfigChanged,
    TopicCreated,
    TopicDeleted,
    TopicImage,
    load_image,
)
from ottla.coordination.store import with_parents
from ottla.coordination.znodes import BadZnode, Endpoint
from ottla.kernel.ids import NO_TOPIC_ID, BrokerId, TopicId
from ottla.testing.store import MemoryEnsemble, MemoryStore

ID_A, ID_B = TopicId(b"a" * 16), TopicId(b"b" * 16)


def topic(name: str, topic_id: TopicId, *leaders: int, version: int = 0) -> TopicImage:
    partitions = (PartitionImage(n, (1, 2), leader) for n, leader in enumerate(leaders))
    return TopicImage(name, topic_id, tuple(partitions), version)


def loaded(nodes: dict[str, bytes]) -> ClusterImage:
    async def main() -> ClusterImage:
        store = MemoryStore(MemoryEnsemble())
        await store.open()
        for full_path, data in nodes.items():
            for path in with_parents(full_path)[:-1]:
                if not await store.exists(path):
                    await store.create(path)
            await store.create(full_path, data)
        return await load_image(store)

    return asyncio.run(main())


def test_everything_is_loaded() -> None:
    image = loaded(
        {
            "/cluster/id": b'{"version":"1","id":"the-cluster"}',
            "/controller": b'{"version":2,"brokerid":2,"timestamp":"1"}',
            "/brokers/ids/10": b'{"version":2,"jmx_port":-1,"endpoints":["A://h:1","B://h:2"]}',
            "/brokers/ids/2": b'{"version":3,"jmx_port":-1,"endpoints":["A://g:1"],"rack":"r"}',
            "/brokers/topics/t": (
                b'{"version":3,"topic_id":"YWFhYWFhYWFhYWFhYWFhYQ",'
                b'"partitions":{"1":[10],"0":[2,10]},"adding_replicas":{"0":[10]}}'
            ),
            "/brokers/topics/t/partitions/0/state": (
                b'{"version":1,"leader":2,"leader_epoch":3,"controller_epoch":4,"isr":[2]}'
            ),
            "/config/topics/t": b'{"version":1,"config":{"retention.ms":"1"}}',
            "/config/brokers/<default>": b'{"version":1,"config":{"a":"1"}}',
            "/config/brokers/2": b'{"version":1,"config":{"a":"2"}}',
            "/config/groups/a%2Fb": b'{"version":1,"config":{"a":"3"}}',
            "/config/client-metrics/m%2Fn": b'{"version":1,"config":{"a":"4"}}',
        }
    )
    assert image.cluster_id == "the-cluster"
    assert image.controller_id == 2
    assert list(image.brokers) == [2, 10]
    assert image.brokers[BrokerId(2)].rack == "r"
    assert image.brokers[BrokerId(10)].endpoints["B"] == Endpoint("B", "B", "h", 2)
    assert image.topics["t"] is image.topics_by_id[ID_A]
    assert image.topics["t"].partitions == (
        PartitionImage(0, (2, 10), 2, 3, (2,), 4, 0, adding_replicas=(10,)),
        PartitionImage(1, (10,)),
    )
    assert image.partition("t", 1) == PartitionImage(1, (10,))
    assert image.partition("t", 2) is None
    assert image.partition("t", -1) is None
    assert image.partition("u", 0) is None
    assert image.topic_configs == {"t": {"retention.ms": "1"}}
    assert image.broker_configs == {None: {"a": "1"}, 2: {"a": "2"}}
    assert image.group_configs == {"a/b": {"a": "3"}}
    assert image.client_metrics_configs == {"m/n": {"a": "4"}}


def test_a_topic_without_id_is_found_by_name_only() -> None:
    image = loaded({"/brokers/topics/t": b'{"version":1,"partitions":{"0":[1]}}'})
    assert image.topics["t"].id == NO_TOPIC_ID
    assert image.topics_by_id == {}


def test_partitions_with_a_gap_are_refused() -> None:
    with pytest.raises(BadZnode, match="/brokers/topics/t"):
        loaded({"/brokers/topics/t": b'{"version":1,"partitions":{"0":[1],"2":[1]}}'})


def test_replicas_on_brokers_that_do_not_run_are_offline() -> None:
    image = ClusterImage()
    image.apply(BrokersChanged({BrokerId(1): BrokerImage(BrokerId(1), 1, {})}))
    assert image.offline_replicas(PartitionImage(0, (3, 1, 2))) == [3, 2]


def test_listeners_are_called_after_the_picture_shows_it() -> None:
    image = ClusterImage()
    seen: list[bool] = []
    image.on_change(lambda change: seen.append("t" in image.topics))
    created = topic("t", ID_A, 1)
    image.apply(TopicCreated(created, {}))
    image.apply(TopicDeleted(created))
    assert seen == [True, False]
    assert image.topics_by_id == {}
    assert image.topic_configs == {}


def test_what_differs_from_a_new_picture_is_told() -> None:
    image, other = ClusterImage(), ClusterImage()
    same = topic("same", TopicId(b"s" * 16), 1)
    old_again, new_again = topic("again", ID_A, 1), topic("again", ID_B, 1)
    gone, come = topic("gone", TopicId(b"g" * 16), 1), topic("come", TopicId(b"c" * 16), 1)
    small = topic("grown", TopicId(b"x" * 16), 1, 1)
    grown = topic("grown", TopicId(b"x" * 16), 1, 2, 1, version=1)
    for each in (same, old_again, gone, small):
        image.apply(TopicCreated(each, {}))
    for each in (same, new_again, come, grown):
        other.apply(TopicCreated(each, {"k": "v"} if each is same else {}))
    image.apply(BrokerConfigChanged(1, {"a": "1"}))
    other.apply(BrokerConfigChanged(None, {"b": "1"}))
    brokers = {BrokerId(1): BrokerImage(BrokerId(1), 1, {})}
    other.apply(BrokersChanged(brokers))
    other.apply(ControllerChanged(1))

    changes: list[Change] = []
    image.on_change(changes.append)
    image.become(other)
    assert changes == [
        TopicDeleted(old_again),
        TopicDeleted(gone),
        TopicConfigChanged("same", {"k": "v"}),
        TopicCreated(new_again, {}),
        TopicCreated(come, {}),
        TopicChanged(grown, (1, 2), 2),
        BrokerConfigChanged(None, {"b": "1"}),
        BrokerConfigChanged(1, {}),
        BrokersChanged(brokers),
        ControllerChanged(1),
    ]
    assert image.topics == other.topics
    assert image.topics_by_id == other.topics_by_id
    changes.clear()
    image.become(other)
    assert changes == []


def test_a_group_without_settings_is_not_kept() -> None:
    image = ClusterImage()
    image.apply(GroupConfigChanged("g", {"a": "1"}))
    assert image.group_configs == {"g": {"a": "1"}}
    image.apply(GroupConfigChanged("g", {}))
    assert image.group_configs == {}


def test_settings_of_groups_and_subscriptions_become_those_of_another_picture() -> None:
    image, other = ClusterImage(), ClusterImage()
    image.apply(GroupConfigChanged("gone", {"a": "1"}))
    image.apply(ClientMetricsConfigChanged("changed", {"a": "1"}))
    other.apply(ClientMetricsConfigChanged("changed", {"a": "2"}))
    other.apply(GroupConfigChanged("new", {"a": "3"}))
    image.become(other)
    assert image.group_configs == {"new": {"a": "3"}}
    assert image.client_metrics_configs == {"changed": {"a": "2"}}
