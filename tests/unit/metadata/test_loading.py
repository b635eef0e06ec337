from __future__ import annotations

import asyncio

import pytest

from ottla.coordination.store import with_parents
from ottla.coordination.znodes import BadZnode, Endpoint
from ottla.kernel.ids import NO_TOPIC_ID, BrokerId, TopicId
from ottla.metadata.image import ClusterImage, PartitionImage
from ottla.metadata.loading import load_image
from ottla.testing.store import MemoryEnsemble, MemoryStore

ID_A = TopicId(b"a" * 16)


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
                b'{"version":1,"leader":2,"leader_epoch":3,"controller_epoch":4,"isr":[2],'
                b'"eligible_leader_replicas":[10],"last_known_elr":[2]}'
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
        PartitionImage(
            0,
            (2, 10),
            2,
            3,
            (2,),
            4,
            0,
            adding_replicas=(10,),
            eligible_leader_replicas=(10,),
            last_known_elr=(2,),
        ),
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
