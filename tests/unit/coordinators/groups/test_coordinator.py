from __future__ import annotations

from ottla.coordination.image import ClusterImage, PartitionImage, TopicCreated, TopicImage
from ottla.coordinators.groups.coordinator import ImageTopics
from ottla.kernel.ids import TopicId
from tests.support.simulated_broker import SimulatedBroker, with_broker
from tests.support.simulated_group import commit, committed, find_coordinator

TOPIC_ID = TopicId(b"\x01" * 16)
ABSENT_ID = TopicId(b"\x07" * 16)


def test_groups_see_the_topics_as_they_are_now() -> None:
    image = ClusterImage()
    topics = ImageTopics(image)
    assert topics.names() == []
    partitions = tuple(PartitionImage(number, (1,)) for number in range(3))
    image.apply(TopicCreated(TopicImage("t", TOPIC_ID, partitions), {}))
    found = topics.by_name("t")
    assert found == topics.by_id(TOPIC_ID) == (TOPIC_ID, "t", 3)
    assert topics.by_name("missing") is None
    assert topics.by_id(ABSENT_ID) is None
    assert topics.names() == ["t"]


def test_offsets_of_deleted_topics_are_forgotten_in_every_shard() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        await find_coordinator(broker, "g")
        names = [f"g{number}" for number in range(10)]
        for group_id in names:
            await commit(broker, group_id, {"t": {0: 1}})
        groups = broker.machine.broker.groups
        assert groups is not None
        await groups.topics_deleted(["t", "unknown"])
        for group_id in names:
            assert await committed(broker, group_id) == {}

    with_broker(test)
