from __future__ import annotations

from ottla.coordination.znodes import Endpoint
from ottla.kernel.ids import BrokerId, TopicId
from ottla.metadata.image import (
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
)

ID_A, ID_B = TopicId(b"a" * 16), TopicId(b"b" * 16)


def topic(name: str, topic_id: TopicId, *leaders: int, version: int = 0) -> TopicImage:
    partitions = (PartitionImage(n, (1, 2), leader) for n, leader in enumerate(leaders))
    return TopicImage(name, topic_id, tuple(partitions), version)


def brokers(*ids: int, listener: str = "A") -> dict[BrokerId, BrokerImage]:
    return {
        BrokerId(id): BrokerImage(
            BrokerId(id), 1, {listener: Endpoint(listener, "PLAINTEXT", "h", id)}
        )
        for id in ids
    }


def test_replicas_on_brokers_that_do_not_run_are_offline() -> None:
    image = ClusterImage()
    image.apply(BrokersChanged(brokers(1)))
    assert image.offline_replicas(PartitionImage(0, (3, 1, 2)), "A") == [3, 2]


def test_replicas_that_the_controller_calls_offline_are() -> None:
    image = ClusterImage()
    image.apply(BrokersChanged(brokers(1, 2)))
    assert image.offline_replicas(PartitionImage(0, (1, 2), offline_replicas=(2,)), "A") == [2]


def test_only_brokers_with_a_listener_are_reached_by_it() -> None:
    image = ClusterImage()
    image.apply(BrokersChanged({**brokers(1, 3), **brokers(2, listener="B")}))
    assert image.endpoint(2, "A") is None
    assert image.endpoint(2, "B") == Endpoint("B", "PLAINTEXT", "h", 2)
    assert image.endpoint(4, "A") is None
    assert [broker.id for broker, endpoint in image.endpoints("A")] == [1, 3]
    assert image.offline_replicas(PartitionImage(0, (1, 2, 3)), "A") == [2]


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
    other.apply(BrokersChanged(brokers(1)))
    other.apply(ControllerChanged(1))

    changes: list[Change] = []
    image.on_change(changes.append)
    image.become(other)
    assert changes == [
        TopicDeleted(old_again),
        TopicDeleted(gone),
        TopicCreated(new_again, {}),
        TopicCreated(come, {}),
        TopicChanged(grown, (1, 2), 2),
        BrokerConfigChanged(1, {}),
        TopicConfigChanged("same", {"k": "v"}),
        BrokerConfigChanged(None, {"b": "1"}),
        BrokersChanged(brokers(1)),
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
