"""Metadata, and creating, growing and deleting topics: Ottla and Apache Kafka answer alike."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.kernel.ids import NO_TOPIC_ID, TopicId
from ottla.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from ottla.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.support.raw_client import as_dict
from tests.support.side_by_side import Both, Subject, assert_alike, settle

UNKNOWN_ID = TopicId(bytes(range(16)))
TIMEOUT_MS = 30_000


def metadata(
    subject: Subject, version: int, *asked: Any, create: bool = False, **options: Any
) -> Any:
    """`asked`: names or ids."""
    request = MetadataRequest(
        topics=[
            MetadataRequestTopic(name=one)
            if isinstance(one, str)
            else MetadataRequestTopic(name=None, topic_id=one)
            for one in asked
        ],
        allow_auto_topic_creation=create or version < 4,
        **options,
    )
    return as_dict(subject.ask(request, version))


@pytest.mark.parametrize("version", MetadataRequest.VERSIONS)
def test_metadata(both: Both, topic: str, version: int) -> None:
    def scenario(subject: Subject) -> Any:
        subject.create(topic, 3)
        seen = [metadata(subject, version, topic)]
        if version >= 1:
            seen.append(metadata(subject, version))
        if version >= 4:
            seen.append(metadata(subject, version, topic, f"{topic}-missing"))
        if version >= 8:
            seen.append(metadata(subject, version, topic, include_topic_authorized_operations=True))
        if 8 <= version <= 10:
            seen.append(
                metadata(subject, version, topic, include_cluster_authorized_operations=True)
            )
        if version >= 12:
            seen.append(metadata(subject, version, subject.topic_ids[topic]))
            seen.append(metadata(subject, version, UNKNOWN_ID))
        return seen

    assert_alike(both, scenario)


BAD_NAMES = ["", ".", "..", "a b", "a/b", "é", "x" * 250, "a:b", "a\0b"]


@pytest.mark.parametrize("create", [False, True])
@pytest.mark.parametrize("name", BAD_NAMES)
def test_metadata_of_bad_names(both: Both, name: str, create: bool) -> None:
    def scenario(subject: Subject) -> Any:
        return metadata(subject, 12, name, create=create)

    assert_alike(both, scenario)


def test_metadata_by_name_and_id(both: Both, topic: str) -> None:
    """Only one of them may be given."""

    def scenario(subject: Subject) -> Any:
        subject.create(topic)
        asked = MetadataRequestTopic(name=topic, topic_id=subject.topic_ids[topic])
        answers = [
            as_dict(subject.ask(MetadataRequest(topics=[asked]), version)) for version in (10, 12)
        ]
        return [answer["topics"][0]["error_code"] for answer in answers]

    assert_alike(both, scenario)


def test_topics_that_begin_by_being_asked_for(both: Both, topic: str) -> None:
    """Kafka says UNKNOWN_TOPIC_OR_PARTITION once, Ottla waits until the topic is there."""

    def scenario(subject: Subject) -> Any:
        metadata(subject, 12, topic, create=True)
        subject.wait_until_led(topic)
        return metadata(subject, 12, topic)

    assert_alike(both, scenario)


def a_topic(name: str, partitions: int = 1, replicas: int = 1, **configs: Any) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        configs=[
            CreatableTopicConfig(name=key.replace("_", "."), value=value)
            for key, value in configs.items()
        ],
    )


def assigned(name: str, *assignments: tuple[int, list[int]], **fields: int) -> CreatableTopic:
    counts: dict[str, Any] = {"num_partitions": -1, "replication_factor": -1, **fields}
    return CreatableTopic(
        name=name,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
            for index, brokers in assignments
        ],
        **counts,
    )


def create(
    subject: Subject, version: int, *topics: CreatableTopic, validate_only: bool = False
) -> Any:
    request = CreateTopicsRequest(
        topics=list(topics), timeout_ms=TIMEOUT_MS, validate_only=validate_only
    )
    answer = as_dict(subject.ask(request, version))
    for one in answer["topics"]:
        if one["configs"]:
            # Of what a broker's settings say, test_configs_like_kafka.py compares all.
            one["configs"] = [config for config in one["configs"] if config["config_source"] == 1]
    answer["topics"].sort(key=lambda one: one["name"])
    return answer


@pytest.mark.parametrize("version", CreateTopicsRequest.VERSIONS)
def test_create_topics(both: Both, topic: str, version: int) -> None:
    def scenario(subject: Subject) -> Any:
        return [
            create(subject, version, a_topic(topic, 2, retention_ms="1000")),
            create(subject, version, a_topic(topic)),  # again
            create(subject, version, a_topic(f"{topic}-v"), validate_only=True),
            create(subject, version, a_topic(f"{topic}-v"), validate_only=True),
            create(subject, version, a_topic(f"{topic}-default", -1, -1)),
        ]

    assert_alike(both, scenario)


REFUSED: dict[str, Any] = {
    "no partitions": lambda topic: a_topic(topic, 0),
    "negative partitions": lambda topic: a_topic(topic, -2),
    "no replicas": lambda topic: a_topic(topic, 1, 0),
    "negative replicas": lambda topic: a_topic(topic, 1, -2),
    "more replicas than brokers": lambda topic: a_topic(topic, 1, 2),
    "unknown config": lambda topic: a_topic(topic, no_such_setting="1"),
    "bad config": lambda topic: a_topic(topic, retention_ms="soon"),
    "config out of range": lambda topic: a_topic(topic, max_message_bytes="-1"),
    "null config": lambda topic: a_topic(topic, retention_ms=None),
    "assigned": lambda topic: assigned(topic, (0, [1]), (1, [1])),
    "assigned and counted": lambda topic: assigned(topic, (0, [1]), num_partitions=1),
    "assigned with factor": lambda topic: assigned(topic, (0, [1]), replication_factor=1),
    "assigned to an unknown broker": lambda topic: assigned(topic, (0, [77])),
    "assigned twice to a broker": lambda topic: assigned(topic, (0, [1, 1])),
    "assigned to nobody": lambda topic: assigned(topic, (0, [])),
    "assigned with a gap": lambda topic: assigned(topic, (0, [1]), (2, [1])),
    "assigned twice": lambda topic: assigned(topic, (0, [1]), (0, [1])),
    "assigned not from zero": lambda topic: assigned(topic, (1, [1])),
}


@pytest.mark.parametrize("name", REFUSED)
def test_create_topics_oddly(both: Both, topic: str, name: str) -> None:
    def scenario(subject: Subject) -> Any:
        return [
            create(subject, 7, REFUSED[name](topic), validate_only=validate_only)
            for validate_only in (True, False)
        ]

    assert_alike(both, scenario)


@pytest.mark.parametrize("name", BAD_NAMES)
def test_create_topics_with_bad_names(both: Both, name: str) -> None:
    assert_alike(both, lambda subject: create(subject, 7, a_topic(name)))


def test_create_topics_whose_names_collide(both: Both, topic: str) -> None:
    def scenario(subject: Subject) -> Any:
        return [
            create(subject, 7, a_topic(f"{topic}.a_b")),
            create(subject, 7, a_topic(f"{topic}_a.b")),
            create(subject, 7, a_topic(f"{topic}-c"), a_topic(f"{topic}-c")),
            create(subject, 7, a_topic(f"{topic}-d"), a_topic("a b"), a_topic(f"{topic}-e")),
        ]

    assert_alike(both, scenario)


def delete(subject: Subject, version: int, *asked: Any) -> Any:
    if version < 6:
        request = DeleteTopicsRequest(topic_names=list(asked), timeout_ms=TIMEOUT_MS)
    else:
        request = DeleteTopicsRequest(
            topics=[
                one if isinstance(one, DeleteTopicState) else DeleteTopicState(name=one)
                for one in asked
            ],
            timeout_ms=TIMEOUT_MS,
        )
    answer = as_dict(subject.ask(request, version))
    answer["responses"].sort(key=lambda one: (one["error_code"], one["name"] or ""))
    return answer


@pytest.mark.parametrize("version", DeleteTopicsRequest.VERSIONS)
def test_delete_topics(both: Both, topic: str, version: int) -> None:
    def scenario(subject: Subject) -> Any:
        subject.create(topic, 2)
        return [
            delete(subject, version, f"{topic}-missing"),
            delete(subject, version, topic, f"{topic}-missing"),
            delete(subject, version, topic),
            delete(subject, version, "a b"),
            delete(subject, version, ""),
        ]

    assert_alike(both, scenario)


def test_delete_topics_by_id(both: Both, topic: str) -> None:
    def scenario(subject: Subject) -> Any:
        subject.create(topic)
        topic_id = subject.topic_ids[topic]
        return [
            delete(subject, 6, DeleteTopicState(name=None, topic_id=UNKNOWN_ID)),
            delete(subject, 6, DeleteTopicState(name=None, topic_id=NO_TOPIC_ID)),
            delete(subject, 6, DeleteTopicState(name=topic, topic_id=topic_id)),
            delete(subject, 6, DeleteTopicState(name=topic), DeleteTopicState(name=topic)),
            delete(
                subject,
                6,
                DeleteTopicState(name=topic),
                DeleteTopicState(name=None, topic_id=topic_id),
            ),
            delete(subject, 6, DeleteTopicState(name=None, topic_id=topic_id)),
            delete(subject, 6, DeleteTopicState(name=None, topic_id=topic_id)),
        ]

    assert_alike(both, scenario)


def grow(
    subject: Subject,
    version: int,
    topic: str,
    count: int,
    assignments: list[list[int]] | None = None,
    validate_only: bool = False,
) -> Any:
    wanted = CreatePartitionsTopic(
        name=topic,
        count=count,
        assignments=None
        if assignments is None
        else [CreatePartitionsAssignment(broker_ids=brokers) for brokers in assignments],
    )
    request = CreatePartitionsRequest(
        topics=[wanted], timeout_ms=TIMEOUT_MS, validate_only=validate_only
    )
    return as_dict(subject.ask(request, version))


@pytest.mark.parametrize("version", CreatePartitionsRequest.VERSIONS)
def test_create_partitions(both: Both, topic: str, version: int) -> None:
    def scenario(subject: Subject) -> Any:
        subject.create(topic, 2)
        seen = [
            grow(subject, version, topic, 1),
            grow(subject, version, topic, 2),
            grow(subject, version, topic, 0),
            grow(subject, version, topic, -1),
            grow(subject, version, topic, 4, validate_only=True),
            grow(subject, version, topic, 4, [[1]]),
            grow(subject, version, topic, 4, [[1], [1, 1]]),
            grow(subject, version, topic, 4, [[1], [77]]),
            grow(subject, version, topic, 4, [[1], []]),
            grow(subject, version, topic, 4, []),
            grow(subject, version, topic, 4, [[1], [1]]),
            grow(subject, version, topic, 5),
            grow(subject, version, f"{topic}-missing", 5),
            grow(subject, version, "a b", 5),
        ]
        settle(subject.client)  # Else Apache Kafka may not list the new ones yet.
        subject.wait_until_led(topic)
        return [*seen, metadata(subject, 12, topic)]

    assert_alike(both, scenario)


def test_create_partitions_twice_in_one_request(both: Both, topic: str) -> None:
    def scenario(subject: Subject) -> Any:
        subject.create(topic)
        wanted = [CreatePartitionsTopic(name=topic, count=n, assignments=None) for n in (2, 3)]
        request = CreatePartitionsRequest(topics=wanted, timeout_ms=TIMEOUT_MS)
        return as_dict(subject.ask(request))

    assert_alike(both, scenario)


def describe(
    subject: Subject, *topics: str, limit: int = 2000, cursor: Cursor | None = None
) -> Any:
    request = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in topics],
        response_partition_limit=limit,
        cursor=cursor,
    )
    return as_dict(subject.ask(request))


def test_describe_topic_partitions(both: Both, topic: str) -> None:
    names = [f"{topic}-{letter}" for letter in "cab"]

    def scenario(subject: Subject) -> Any:
        for name in names:
            subject.create(name, 3)
        a, b, c = sorted(names)
        return [
            describe(subject, *names),
            describe(subject, *names, limit=4),
            describe(subject, *names, limit=3),
            describe(subject, *names, limit=4, cursor=Cursor(topic_name=b, partition_index=1)),
            describe(subject, *names, limit=9, cursor=Cursor(topic_name=c, partition_index=2)),
            describe(subject, *names, cursor=Cursor(topic_name=c, partition_index=3)),
            describe(subject, *names, cursor=Cursor(topic_name="zzz", partition_index=0)),
            describe(subject, a, f"{topic}-aa", b, limit=4),
            describe(subject, a, a),
            describe(subject, "a b"),
        ]

    assert_alike(both, scenario)


def test_describe_topic_partitions_with_a_bad_cursor(both: Both, topic: str) -> None:
    def scenario(subject: Subject) -> Any:
        subject.create(topic)
        cursor = Cursor(topic_name=topic, partition_index=-1)
        return describe(subject, topic, cursor=cursor)

    assert_alike(both, scenario)
