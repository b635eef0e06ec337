from __future__ import annotations

from ottla.coordinators.groups.image_topics import ImageTopics
from ottla.kernel.ids import TopicId
from ottla.metadata.image import ClusterImage, PartitionImage, TopicCreated, TopicImage

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
