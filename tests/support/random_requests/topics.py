"""Random requests about topics and settings."""

from __future__ import annotations

from typing import Any

from ottla.wire.messages import alter_configs as alter
from ottla.wire.messages import incremental_alter_configs as incremental
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
from ottla.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from ottla.wire.messages.list_config_resources import ListConfigResourcesRequest
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.support.random_requests.stage import CLOSED, UNKNOWN_ID, Stage, fitting

TOPIC, BROKER, CLIENT_METRICS, GROUP = 2, 4, 16, 32

TOPIC_SETTINGS: dict[str, tuple[str | None, ...]] = {
    "cleanup.policy": ("delete", "compact", "compact,delete", "", "x", None),
    "compression.type": ("gzip", "producer", "brotli"),
    "retention.ms": ("-1", "1000", "-2", "abc", " 5 ", "", None),
    "segment.bytes": ("1048576", "1", "99999999999"),
    "max.message.bytes": ("0", "1000", "-1"),
    "min.insync.replicas": ("1", "2", "0"),
    "min.cleanable.dirty.ratio": ("0.5", "1.5"),
    "message.timestamp.type": ("CreateTime", "LogAppendTime", "createtime"),
    "preallocate": ("true", "FALSE", "yes"),
    "unclean.leader.election.enable": ("true",),
    "no.such.setting": ("1", None),
}
GROUP_SETTINGS: dict[str, tuple[str | None, ...]] = {
    "consumer.session.timeout.ms": ("45000", "50000", "1", "x"),
    "consumer.heartbeat.interval.ms": ("5000", "6000", "100000"),
    "consumer.no.such": ("1",),
}
CLIENT_METRICS_SETTINGS: dict[str, tuple[str | None, ...]] = {
    "interval.ms": ("100", "60000", "99", "3600001", "x", ""),
    "metrics": ("org.apache.kafka.producer.", "a,b", "*", "", None),
    "match": ("client_id=a.*", "client_software_name=x,client_id=y", "nope=1", "client_id=[", ""),
    "no.such": ("1",),
}
SETTINGS = {TOPIC: TOPIC_SETTINGS, GROUP: GROUP_SETTINGS, CLIENT_METRICS: CLIENT_METRICS_SETTINGS}

ASSIGNMENTS: tuple[list[tuple[int, list[int]]], ...] = (
    [(0, [1])],
    [(0, [1]), (1, [1])],
    [(1, [1])],
    [(0, [7])],
    [(0, [1, 1])],
    [(0, [])],
)
ADDED: tuple[list[list[int]], ...] = ([[1]], [[1], [1]], [[9]], [[]])


class Topics(Stage):
    def prepare(self) -> None:
        self.subject.make_offsets_topic()
        self.pool = [self.topic(name) for name in ("a", "b", "c", "d")]

    def any_topic(self) -> str:
        """None that is there for others too: what is done to it would change their tests."""
        bad = ("", ".", "..", "with space", "x" * 250)
        return self.mostly(self.pick(*self.pool), *bad, share=0.92)

    def any_topics(self, most: int = 3) -> list[str]:
        return list(dict.fromkeys(self.any_topic() for _ in range(self.rng.randint(1, most))))

    def setting(self, kind: int) -> tuple[str, str | None]:
        names = SETTINGS.get(kind, TOPIC_SETTINGS)
        name = self.pick(*names)
        return name, self.pick(*names[name])

    def settings(self, kind: int, most: int = 2) -> dict[str, str | None]:
        return dict(self.setting(kind) for _ in range(self.rng.randint(0, most)))

    def resource(self) -> tuple[int, str]:
        kind = self.mostly(TOPIC, GROUP, CLIENT_METRICS, CLIENT_METRICS, 99, share=0.6)
        if kind == TOPIC:
            return kind, self.any_topic()
        return kind, self.mostly(self.topic(self.pick("one", "two")), "")


# -- topics -----------------------------------------------------------------------------------


def create_topics(topics: Topics) -> Any:
    version = topics.version(CreateTopicsRequest)
    names = topics.any_topics()
    request = CreateTopicsRequest(
        topics=[_wanted(topics, name) for name in names],
        timeout_ms=30_000,
        validate_only=topics.chance(0.15),
    )
    if topics.chance(0.05):
        request.topics.append(_wanted(topics, names[0]))
    answer = topics.ask(request, version)
    topics.settle(topics.pool)
    return answer


def _wanted(topics: Topics, name: str) -> CreatableTopic:
    wanted = CreatableTopic(
        name=name,
        num_partitions=topics.mostly(topics.pick(1, 2, 3), -1, 0, -2),
        replication_factor=topics.mostly(topics.pick(1, -1), 0, 2, -2),
        configs=[
            CreatableTopicConfig(name=name, value=value)
            for name, value in topics.settings(TOPIC).items()
        ],
    )
    if topics.chance(0.15):
        wanted.assignments = [
            CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
            for index, brokers in topics.pick(*ASSIGNMENTS)
        ]
        if topics.chance(0.8):
            wanted.num_partitions = wanted.replication_factor = -1
    return wanted


def create_partitions(topics: Topics) -> Any:
    version = topics.version(CreatePartitionsRequest)
    wanted = []
    for name in topics.any_topics(2):
        count = topics.pick(1, 2, 3, 4, 5, 0, -1)
        assignments = None
        if topics.chance(0.2):
            assignments = [
                CreatePartitionsAssignment(broker_ids=brokers) for brokers in topics.pick(*ADDED)
            ]
        wanted.append(CreatePartitionsTopic(name=name, count=count, assignments=assignments))
    request = CreatePartitionsRequest(
        topics=wanted, timeout_ms=30_000, validate_only=topics.chance(0.15)
    )
    answer = topics.ask(request, version)
    topics.settle(topics.pool)
    return answer


def delete_topics(topics: Topics) -> Any:
    version = topics.version(DeleteTopicsRequest)
    names = topics.any_topics(2)
    if version < 6:
        request = DeleteTopicsRequest(topic_names=names, timeout_ms=30_000)
    else:
        states = [
            DeleteTopicState(name=name)
            if topics.chance(0.6)
            else DeleteTopicState(topic_id=topics.topic_id(name))
            for name in names
        ]
        if topics.chance(0.1):
            states.append(topics.pick(DeleteTopicState(), DeleteTopicState(topic_id=UNKNOWN_ID)))
        request = DeleteTopicsRequest(topics=states, timeout_ms=30_000)
    answer = topics.ask(request, version)
    topics.settle(topics.pool)
    return answer


def metadata(topics: Topics) -> Any:
    version = topics.version(MetadataRequest)
    wanted = []
    for name in topics.any_topics():
        if version >= 12 and topics.chance(0.4):
            wanted.append(MetadataRequestTopic(topic_id=topics.topic_id(name), name=None))
        else:
            wanted.append(MetadataRequestTopic(name=name))
    request = fitting(
        MetadataRequest,
        version,
        topics=wanted,
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=topics.chance(0.2),
        include_topic_authorized_operations=topics.chance(0.2),
    )
    if version < 4:
        # These make a topic that is not there, some time later.
        request.topics = [one for one in wanted if one.name in topics.existing]
    if version == 0 and not request.topics:
        request.topics = [MetadataRequestTopic(name="__consumer_offsets")]
    return topics.ask(request, version)


def describe_topic_partitions(topics: Topics) -> Any:
    request = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in topics.any_topics() if name]
        or [TopicRequest(name="__consumer_offsets")],
        response_partition_limit=topics.mostly(2000, 1, 2, 0, -1),
    )
    if topics.chance(0.3):
        request.cursor = Cursor(
            topic_name=topics.pick(*topics.pool), partition_index=topics.mostly(0, 1, -1, 9)
        )
    return topics.ask(request, 0)


# -- settings ---------------------------------------------------------------------------------


def describe_configs(topics: Topics) -> Any:
    version = topics.version(DescribeConfigsRequest)
    resources = []
    for _ in range(topics.pick(1, 2)):
        kind, name = topics.resource()
        keys = None
        if topics.chance(0.7):
            keys = list(dict.fromkeys(topics.setting(kind)[0] for _ in range(3)))
        resources.append(
            DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
        )
    request = fitting(
        DescribeConfigsRequest,
        version,
        resources=resources,
        include_synonyms=topics.chance(0.5),
        include_documentation=topics.chance(0.2),
    )
    return topics.ask(request, version)


def alter_configs(topics: Topics) -> Any:
    """Each resource once: where one is named twice, Apache Kafka never answers."""
    resources = []
    named = dict.fromkeys(topics.resource() for _ in range(topics.pick(1, 1, 2)))
    for kind, name in named:
        configs = [
            alter.AlterableConfig(name=name, value=value)
            for name, value in topics.settings(kind).items()
        ]
        resources.append(
            alter.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
        )
    request = alter.AlterConfigsRequest(resources=resources, validate_only=topics.chance(0.2))
    answer = topics.ask(request, topics.version(alter.AlterConfigsRequest))
    topics.settle()
    return answer


def alter_configs_incrementally(topics: Topics) -> Any:
    resources = []
    for _ in range(topics.pick(1, 1, 2)):
        kind, name = topics.resource()
        configs = []
        for _ in range(topics.pick(1, 1, 2, 3)):
            setting, value = topics.setting(kind)
            operation = topics.mostly(0, 1, 2, 3, share=0.5)
            configs.append(
                incremental.AlterableConfig(name=setting, config_operation=operation, value=value)
            )
        resources.append(
            incremental.AlterConfigsResource(
                resource_type=kind, resource_name=name, configs=configs
            )
        )
    request = incremental.IncrementalAlterConfigsRequest(
        resources=resources, validate_only=topics.chance(0.2)
    )
    answer = topics.ask(request, topics.version(incremental.IncrementalAlterConfigsRequest))
    topics.settle()
    return answer


def list_config_resources(topics: Topics) -> Any:
    version = topics.version(ListConfigResourcesRequest)
    kinds = topics.pick([], [CLIENT_METRICS], [GROUP], [TOPIC, CLIENT_METRICS], [GROUP, 99])
    answer = topics.ask(fitting(ListConfigResourcesRequest, version, resource_types=kinds), version)
    if answer is not CLOSED:
        # Others have theirs.
        answer.config_resources = sorted(
            (one for one in answer.config_resources if topics.prefix in one.resource_name),
            key=repr,
        )
    return answer


STEPS = {
    create_topics: 8,
    create_partitions: 4,
    delete_topics: 3,
    metadata: 4,
    describe_topic_partitions: 3,
    describe_configs: 5,
    alter_configs: 3,
    alter_configs_incrementally: 6,
    list_config_resources: 2,
}
