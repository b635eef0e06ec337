"""What is said of common failures, beside Apache Kafka: programs look for its words. Ours may say
more, never less."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from ottla.kernel.errors import ErrorCode
from ottla.records.builder import build_batch
from ottla.records.record import Record
from ottla.wire.messages import alter_configs, incremental_alter_configs
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.wire.messages.create_acls import AclCreation, CreateAclsRequest
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
from ottla.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.wire.messages.describe_acls import DescribeAclsRequest
from ottla.wire.messages.describe_cluster import DescribeClusterRequest
from ottla.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.wire.messages.describe_groups import DescribeGroupsRequest
from ottla.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from ottla.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from tests.support.raw_client import as_dict
from tests.support.raw_group import RawMember, wait_for_coordinator
from tests.support.side_by_side import NOW_MS, Both, Subject, a_batch

TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
MISSING_ID = b"\x07" * 16

Failure = Callable[[Subject, str], Any]
"""Asks for what must fail; the name is one that no other test has."""


def creation(**fields: Any) -> Failure:
    def ask(subject: Subject, name: str) -> Any:
        topic = {"name": name, "num_partitions": 1, "replication_factor": 1, **fields}
        configs = topic.pop("configs", {})
        topic["configs"] = [
            CreatableTopicConfig(name=key, value=value) for key, value in configs.items()
        ]
        topic["assignments"] = [
            CreatableReplicaAssignment(partition_index=number, broker_ids=brokers)
            for number, brokers in topic.pop("assignments", {}).items()
        ]
        return subject.ask(CreateTopicsRequest(topics=[CreatableTopic(**topic)], timeout_ms=9999))

    return ask


def placed(assignments: Mapping[int, list[int]], **fields: Any) -> Failure:
    return creation(
        **{"num_partitions": -1, "replication_factor": -1, "assignments": assignments, **fields}
    )


def existing_topic(subject: Subject, name: str) -> Any:
    subject.create(name)
    return creation()(subject, name)


def colliding_topic(subject: Subject, name: str) -> Any:
    subject.create(f"{name}.a")
    return creation(name=f"{name}_a")(subject, name)


def topic_twice(subject: Subject, name: str) -> Any:
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    return subject.ask(CreateTopicsRequest(topics=[topic, topic], timeout_ms=9999))


def deletion(**fields: Any) -> Failure:
    def ask(subject: Subject, name: str) -> Any:
        topic = DeleteTopicState(**{"name": name, **fields})
        return subject.ask(DeleteTopicsRequest(topics=[topic], timeout_ms=9999))

    return ask


def deletion_twice(subject: Subject, name: str) -> Any:
    subject.create(name)
    topic = DeleteTopicState(name=name)
    return subject.ask(DeleteTopicsRequest(topics=[topic, topic], timeout_ms=9999))


def growth(count: int, *assignments: list[int], is_there: bool = True) -> Failure:
    def ask(subject: Subject, name: str) -> Any:
        if is_there:
            subject.create(name, 2)
        topic = CreatePartitionsTopic(
            name=name,
            count=count,
            assignments=[CreatePartitionsAssignment(broker_ids=each) for each in assignments]
            or None,
        )
        return subject.ask(CreatePartitionsRequest(topics=[topic], timeout_ms=9999))

    return ask


def growth_twice(subject: Subject, name: str) -> Any:
    subject.create(name)
    topic = CreatePartitionsTopic(name=name, count=3, assignments=None)
    return subject.ask(CreatePartitionsRequest(topics=[topic, topic], timeout_ms=9999))


def alteration(
    *changes: tuple[str, int, str | None],
    kind: int = TOPIC,
    resource: str | None = None,
) -> Failure:
    """Of the topic, unless a resource is named."""

    def ask(subject: Subject, name: str) -> Any:
        if resource is None:
            subject.create(name)
        configs = [
            incremental_alter_configs.AlterableConfig(
                name=key, config_operation=operation, value=value
            )
            for key, operation, value in changes
        ]
        named = incremental_alter_configs.AlterConfigsResource(
            resource_type=kind,
            resource_name=name if resource is None else resource,
            configs=configs,
        )
        return subject.ask(
            incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[named])
        )

    return ask


def replacement(key: str, value: str | None, resource: str | None = None) -> Failure:
    def ask(subject: Subject, name: str) -> Any:
        if resource is None:
            subject.create(name)
        named = alter_configs.AlterConfigsResource(
            resource_type=TOPIC,
            resource_name=name if resource is None else resource,
            configs=[alter_configs.AlterableConfig(name=key, value=value)],
        )
        return subject.ask(alter_configs.AlterConfigsRequest(resources=[named]))

    return ask


def description(kind: int, resource: str) -> Failure:
    def ask(subject: Subject, name: str) -> Any:
        named = DescribeConfigsResource(resource_type=kind, resource_name=resource)
        return subject.ask(DescribeConfigsRequest(resources=[named]))

    return ask


def missing_group(subject: Subject, name: str) -> Any:
    wait_for_coordinator(subject.ask, name)
    return subject.ask(DescribeGroupsRequest(groups=[name]))


def missing_consumer_group(subject: Subject, name: str) -> Any:
    wait_for_coordinator(subject.ask, name)
    return subject.ask(ConsumerGroupDescribeRequest(group_ids=[name]))


def classic_as_consumer_group(subject: Subject, name: str) -> Any:
    wait_for_coordinator(subject.ask, name)
    member = RawMember(subject.bootstrap, name)
    member.join(name)
    answer = subject.ask(ConsumerGroupDescribeRequest(group_ids=[name]))
    member.leave()
    member.close()
    return answer


def consumer_as_classic_group(subject: Subject, name: str) -> Any:
    beat()(subject, name)
    return subject.ask(DescribeGroupsRequest(groups=[name]))


def beat(**fields: Any) -> Failure:
    def ask(subject: Subject, name: str) -> Any:
        wait_for_coordinator(subject.ask, name)
        request: dict[str, Any] = {
            "group_id": name,
            "member_id": "a",
            "member_epoch": 0,
            "rebalance_timeout_ms": 5000,
            "subscribed_topic_names": [name],
            "topic_partitions": [],
            **fields,
        }
        return subject.ask(ConsumerGroupHeartbeatRequest(**request))

    return ask


def beat_of_another_epoch(subject: Subject, name: str) -> Any:
    beat()(subject, name)
    return beat(member_epoch=7)(subject, name)


def beat_of_an_old_epoch(subject: Subject, name: str) -> Any:
    for epoch in (0, 0):
        joined = beat(member_epoch=epoch)(subject, name)
    return beat(member_epoch=joined.member_epoch - 1, topic_partitions=None)(subject, name)


def instance_that_has_not_left(subject: Subject, name: str) -> Any:
    beat(instance_id="i")(subject, name)
    return beat(instance_id="i", member_id="b")(subject, name)


def instance_that_was_replaced(subject: Subject, name: str) -> Any:
    beat(instance_id="i")(subject, name)
    return beat(instance_id="i", member_id="b", member_epoch=5)(subject, name)


def beat_of_another_member(subject: Subject, name: str) -> Any:
    beat()(subject, name)
    return beat(member_id="b", member_epoch=1)(subject, name)


def coordinator(key_type: int, key: str) -> Failure:
    return lambda subject, name: subject.ask(
        FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
    )


def production(batch: Callable[[], bytearray], **settings: Any) -> Failure:
    def ask(subject: Subject, name: str) -> Any:
        subject.create(name, **settings)
        return subject.produce(name, batch())

    return ask


def a_corrupt_batch() -> bytearray:
    batch = a_batch(b"v")
    batch[-1] ^= 1
    return batch


def sequences(*batches: tuple[int, int]) -> Failure:
    """(epoch, sequence) of a producer's batches, of which the last is refused."""

    def ask(subject: Subject, name: str) -> Any:
        subject.create(name)
        for epoch, sequence in batches:
            answer = subject.produce(
                name,
                a_batch(b"v", producer_id=4242, producer_epoch=epoch, base_sequence=sequence),
            )
        return answer

    return ask


def producers(topic: str, partition: int) -> Failure:
    asked = TopicRequest(name=topic, partition_indexes=[partition])
    return lambda subject, name: subject.ask(DescribeProducersRequest(topics=[asked]))


def election(kind: int, partition: int = 0, *, is_there: bool = True) -> Failure:
    def ask(subject: Subject, name: str) -> Any:
        if is_there:
            subject.create(name)
        asked = TopicPartitions(topic=name, partitions=[partition])
        return subject.ask(ElectLeadersRequest(election_type=kind, topic_partitions=[asked]))

    return ask


def reassignment(
    replicas: list[int] | None,
    partition: int = 0,
    *,
    is_there: bool = True,
    allow_replication_factor_change: bool = True,
) -> Failure:
    def ask(subject: Subject, name: str) -> Any:
        if is_there:
            subject.create(name)
        moved = ReassignablePartition(partition_index=partition, replicas=replicas)
        return subject.ask(
            AlterPartitionReassignmentsRequest(
                topics=[ReassignableTopic(name=name, partitions=[moved])],
                allow_replication_factor_change=allow_replication_factor_change,
            )
        )

    return ask


ACL: dict[str, Any] = {"principal": "User:a", "host": "*", "operation": 3, "permission_type": 3}
EVERY: dict[str, Any] = {"resource_type_filter": 1, "operation": 1, "permission_type": 1}

FAILURES: dict[str, Failure] = {
    "create: exists": existing_topic,
    "create: empty name": creation(name=""),
    "create: dot": creation(name="."),
    "create: dots": creation(name=".."),
    "create: illegal character": creation(name="a b"),
    "create: long name": creation(name="x" * 250),
    "create: collides": colliding_topic,
    "create: twice": topic_twice,
    "create: no partitions": creation(num_partitions=0),
    "create: negative partitions": creation(num_partitions=-2),
    "create: no replicas": creation(replication_factor=0),
    "create: more replicas than brokers": creation(replication_factor=3),
    "create: too many partitions": creation(num_partitions=10_001),
    "create: unknown config": creation(configs={"no.such.config": "1"}),
    "create: not a number": creation(configs={"retention.ms": "x"}),
    "create: too small": creation(configs={"max.message.bytes": "-1"}),
    "create: not in the list": creation(configs={"cleanup.policy": "burn"}),
    "create: not a boolean": creation(configs={"preallocate": "perhaps"}),
    "create: no value": creation(configs={"retention.ms": None}),
    "create: placed and counted": placed({0: [1]}, num_partitions=1),
    "create: placed on no broker": placed({0: []}),
    "create: placed on an unknown broker": placed({0: [99]}),
    "create: placed twice on a broker": placed({0: [1, 1]}),
    "create: placed with a gap": placed({0: [1], 2: [1]}),
    "create: placed with other replicas": placed({0: [1], 1: [1, 2]}),
    "create: placed and replicated": placed({0: [1]}, replication_factor=1),
    "delete: unknown topic": deletion(),
    "delete: unknown id": deletion(name=None, topic_id=MISSING_ID),
    "delete: neither name nor id": deletion(name=None),
    "delete: name and id": deletion(topic_id=MISSING_ID),
    "delete: twice": deletion_twice,
    "grow: unknown topic": growth(3, is_there=False),
    "grow: fewer": growth(1),
    "grow: same": growth(2),
    "grow: none": growth(0),
    "grow: placed too few": growth(4, [1]),
    "grow: placed on an unknown broker": growth(3, [99]),
    "grow: twice": growth_twice,
    "elect: not needed": election(0),
    "elect: not needed, unclean": election(1),
    "elect: unknown topic": election(0, is_there=False),
    "elect: unknown partition": election(0, 7),
    "elect: unknown kind": election(9),
    "move: to where it is": reassignment([1]),
    "move: to no broker": reassignment([]),
    "move: to an unknown broker": reassignment([99]),
    "move: twice to a broker": reassignment([1, 1]),
    "move: to more, which is not allowed": reassignment(
        [1, 99], allow_replication_factor_change=False
    ),
    "move: unknown topic": reassignment([1], is_there=False),
    "move: unknown partition": reassignment([1], 7),
    "move: nothing to cancel": reassignment(None),
    "alter: unknown topic": alteration(("retention.ms", SET, "1"), resource="not-there"),
    "alter: bad topic name": alteration(("retention.ms", SET, "1"), resource="a b"),
    "alter: unknown config": alteration(("no.such.config", SET, "1")),
    "alter: not a number": alteration(("retention.ms", SET, "x")),
    "alter: no value": alteration(("retention.ms", SET, None)),
    "alter: twice": alteration(("retention.ms", SET, "1"), ("retention.ms", SET, "2")),
    "alter: append to no list": alteration(("retention.ms", APPEND, "1")),
    "alter: subtract from no list": alteration(("retention.ms", SUBTRACT, "1")),
    "alter: append what may not be": alteration(("cleanup.policy", APPEND, "burn")),
    "alter: bad resource type": alteration(("a", SET, "b"), kind=77, resource="x"),
    "alter: another broker": alteration(
        ("message.max.bytes", SET, "1"), kind=BROKER, resource="99"
    ),
    "alter: a broker that is no number": alteration(
        ("message.max.bytes", SET, "1"), kind=BROKER, resource="one"
    ),
    "alter: read-only": alteration(("log.dirs", SET, "/x"), kind=BROKER, resource="1"),
    "alter: bad broker value": alteration(
        ("message.max.bytes", SET, "x"), kind=BROKER, resource="1"
    ),
    "replace: unknown topic": replacement("retention.ms", "1", "not-there"),
    "replace: unknown config": replacement("no.such.config", "1"),
    "replace: not a number": replacement("retention.ms", "x"),
    "replace: no value": replacement("retention.ms", None),
    "describe: unknown topic": description(TOPIC, "not-there"),
    "describe: bad topic name": description(TOPIC, "a b"),
    "describe: another broker": description(BROKER, "99"),
    "describe: a broker that is no number": description(BROKER, "one"),
    "describe: bad resource type": description(77, "x"),
    "group: unknown": missing_group,
    "group: unknown consumer group": missing_consumer_group,
    "group: classic as consumer": classic_as_consumer_group,
    "group: consumer as classic": consumer_as_classic_group,
    "beat: empty group": beat(group_id=""),
    "beat: no member id": beat(member_id=""),
    "beat: no time-out": beat(rebalance_timeout_ms=-1),
    "beat: no topics": beat(subscribed_topic_names=None),
    "beat: bad epoch": beat(member_epoch=-7),
    "beat: unknown assignor": beat(server_assignor="mine"),
    "beat: bad regular expression": beat(subscribed_topic_regex="["),
    "beat: empty instance": beat(instance_id=""),
    "beat: unknown group": beat(member_epoch=3),
    "beat: another epoch": beat_of_another_epoch,
    "beat: an old epoch": beat_of_an_old_epoch,
    "beat: another member": beat_of_another_member,
    "beat: empty rack": beat(rack_id=""),
    "beat: joins with partitions": beat(topic_partitions=None),
    "beat: leaves for a while without an instance": beat(member_epoch=-2),
    "beat: unknown instance": beat(member_epoch=-2, instance_id="i"),
    "beat: instance in use": instance_that_has_not_left,
    "beat: instance of another": instance_that_was_replaced,
    "coordinator: bad key type": coordinator(9, "x"),
    "coordinator: bad share group": coordinator(2, "x"),
    "produce: too large": production(lambda: a_batch(b"v" * 2000), max_message_bytes="1000"),
    "produce: corrupt": production(a_corrupt_batch),
    "produce: too old": production(
        lambda: a_batch(b"v", b"w", timestamp=NOW_MS - 100_000),
        message_timestamp_before_max_ms="1000",
    ),
    "produce: from the future": production(lambda: a_batch(b"v", timestamp=NOW_MS + 99_999_999)),
    "produce: no key": production(
        lambda: build_batch([Record(0, NOW_MS, None, b"v")]), cleanup_policy="compact"
    ),
    "produce: gap in sequence": sequences((0, 0), (0, 9)),
    "produce: begins in the middle of a sequence": sequences((0, 5)),
    "produce: old epoch": sequences((3, 0), (2, 1)),
    "producers: unknown topic": producers("not-there", 0),
    "cluster: bad endpoint type": lambda subject, name: subject.ask(
        DescribeClusterRequest(endpoint_type=7)
    ),
    "cluster: controllers": lambda subject, name: subject.ask(
        DescribeClusterRequest(endpoint_type=2)
    ),
    "acl: describe": lambda subject, name: subject.ask(DescribeAclsRequest(**EVERY)),
    "acl: create": lambda subject, name: subject.ask(
        CreateAclsRequest(creations=[AclCreation(resource_type=TOPIC, resource_name="t", **ACL)])
    ),
    "acl: delete": lambda subject, name: subject.ask(
        DeleteAclsRequest(filters=[DeleteAclsFilter(**EVERY)])
    ),
}

GENERIC = (
    "",
    "Kafka has the text of the error code, which clients have themselves, and which sends the "
    "reader to a log that says nothing. Ours names what is wrong.",
)
DIFFERENT: dict[str, tuple[str, str]] = {
    "describe: bad resource type": GENERIC,
    "coordinator: bad key type": GENERIC,
    "create: more replicas than brokers": (
        "Unable to replicate the partition 3 time(s): The target replication factor of 3 cannot be "
        "reached because only 1 broker(s) are registered",
        "Log directories are never cordoned here.",
    ),
    "alter: another broker": (
        "Unexpected broker id, expected 1",
        "Kafka says 'or empty string' only when settings are described; it holds for both.",
    ),
    "alter: a broker that is no number": (
        "id must be an integer, but it is: one",
        "Kafka calls it a broker when settings are described, and a node when they are altered.",
    ),
    "produce: no key": (
        "Compacted topic cannot accept message without key",
        "Kafka names the partition, which the client has asked for by name, in the form of a Java "
        "object.",
    ),
    "beat: bad regular expression": (
        "SubscribedTopicRegex `[` is not a valid regular expression: ",
        "What is wrong with it is said by RE2, in Kafka by RE2/J.",
    ),
}
"""Which of Kafka's words ours has all the same, and why not all."""

_BOUNDS = re.compile(r"\[-?\d+, -?\d+\]")
"""Of timestamps, which depend on when the request came."""


NOT_ANSWERED = {
    48: "DescribeClientQuotas",
    49: "AlterClientQuotas",
    50: "DescribeUserScramCredentials",
    51: "AlterUserScramCredentials",
}
"""Nothing is said of these: a client finds that they are not offered, and says so itself."""


def messages(answer: Any, path: str = "") -> Iterator[tuple[str, str, str | None]]:
    """Where something failed, how, and what is said of it."""
    if isinstance(answer, list):
        for index, one in enumerate(answer):
            yield from messages(one, f"{path}[{index}]")
    elif isinstance(answer, dict):
        for name in ("error_message", "batch_index_error_message"):
            if name in answer:
                code = ErrorCode(answer.get("error_code", 0)).name
                yield f"{path}.{name}", code, answer[name]
        for name, one in answer.items():
            yield from messages(one, f"{path}.{name}")


@pytest.mark.parametrize("failure", FAILURES)
def test_words(both: Both, topic: str, failure: str) -> None:
    ottla, kafka = (list(messages(as_dict(FAILURES[failure](subject, topic)))) for subject in both)
    assert [(path, code) for path, code, _ in ottla] == [(path, code) for path, code, _ in kafka]
    assert kafka, "this answer has no room for words"
    for (path, _, ours), (_, _, theirs) in zip(ottla, kafka, strict=True):
        if theirs:
            words = DIFFERENT[failure][0] if failure in DIFFERENT else _BOUNDS.sub("[]", theirs)
            assert words in _BOUNDS.sub("[]", ours or ""), f"{path}: {ours!r}, Kafka: {theirs!r}"


def test_what_is_not_answered_is_not_offered(both: Both) -> None:
    request = ApiVersionsRequest(client_software_name="words", client_software_version="1")
    ottla, kafka = ({each.api_key for each in subject.ask(request).api_keys} for subject in both)
    assert NOT_ANSWERED.keys() <= kafka
    assert not NOT_ANSWERED.keys() & ottla
