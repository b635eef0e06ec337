"""Settings, the cluster, coordinators, ACLs and versions: Ottla and Apache Kafka answer alike."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from ottla.kernel.errors import ErrorCode
from ottla.records.builder import build_batch
from ottla.records.record import Record
from ottla.server.apis import ANSWERED
from ottla.wire.api import ApiKey
from ottla.wire.codec import decode
from ottla.wire.messages import alter_configs, incremental_alter_configs
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.create_acls import AclCreation, CreateAclsRequest
from ottla.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ottla.wire.messages.describe_acls import DescribeAclsRequest
from ottla.wire.messages.describe_cluster import DescribeClusterRequest
from ottla.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.wire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from ottla.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from tests.support.ottla_process import OttlaProcess
from tests.support.raw_client import as_dict
from tests.support.side_by_side import NOW_MS, Both, Subject, a_batch, assert_alike, settle
from tools.reference.compatibility import KAFKA_APIS

TOPIC, BROKER, BROKER_LOGGER, GROUP = 2, 4, 8, 32
SET, DELETE, APPEND, SUBTRACT = range(4)


def test_versions(both: Both) -> None:
    """Every API that Ottla answers, in the same versions as Kafka, in every version of the
    question."""
    ottla, kafka = both
    for version in ApiVersionsRequest.VERSIONS:
        request = ApiVersionsRequest(client_software_name="raw", client_software_version="1")
        found, wanted = (
            {
                one.api_key: (one.min_version, one.max_version)
                for one in subject.ask(request, version).api_keys
            }
            for subject in (ottla, kafka)
        )
        assert found == {key: wanted[key] for key in found}
        assert found.keys() == set(ANSWERED)


def test_the_list_of_kafkas_apis_in_the_docs_is_kafkas(both: Both) -> None:
    _, kafka = both
    request = ApiVersionsRequest(client_software_name="raw", client_software_version="1")
    answer = kafka.ask(request, ApiVersionsRequest.VERSIONS[-1])
    found = {one.api_key: [one.min_version, one.max_version] for one in answer.api_keys}
    assert found == {api["key"]: api["versions"] for api in KAFKA_APIS.values()}


@pytest.mark.parametrize(
    "software", [("", "1"), ("raw", ""), ("a b", "1"), ("-a", "1"), ("a.", "1")]
)
def test_odd_client_software(both: Both, software: tuple[str, str]) -> None:
    def scenario(subject: Subject) -> Any:
        name, version = software
        request = ApiVersionsRequest(client_software_name=name, client_software_version=version)
        return subject.ask(request, 3).error_code

    assert_alike(both, scenario)


def test_a_newer_client_than_the_broker(both: Both) -> None:
    """It is told in version 0 what there is (KIP-511)."""

    def scenario(subject: Subject) -> Any:
        frame = struct.pack(">hhih", ApiKey.API_VERSIONS, 99, 7, -1) + b"\0junk"
        subject.client.socket.sendall(struct.pack(">i", len(frame)) + frame)
        answer = subject.client.receive_frame()
        response, end = decode(ApiVersionsResponse, 0, answer, 4)
        assert end == len(answer)
        assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
        return [as_dict(one) for one in response.api_keys if one.api_key == ApiKey.API_VERSIONS]

    assert_alike(both, scenario)


@pytest.mark.parametrize("version", DescribeClusterRequest.VERSIONS)
def test_describe_cluster(both: Both, version: int) -> None:
    def scenario(subject: Subject) -> Any:
        asked: list[dict[str, Any]] = [{}, {"include_cluster_authorized_operations": True}]
        if version >= 1:
            asked += [{"endpoint_type": kind} for kind in (1, 2, 3)]
        if version >= 2:
            asked.append({"include_fenced_brokers": True})
        return [as_dict(subject.ask(DescribeClusterRequest(**one), version)) for one in asked]

    assert_alike(both, scenario)


@pytest.mark.parametrize("version", FindCoordinatorRequest.VERSIONS)
def test_find_coordinator(both: Both, version: int) -> None:
    def scenario(subject: Subject) -> Any:
        seen = []
        for kind, key in ((0, "group"), (1, "transaction"), (1, ""), (3, "x"), (-1, "x")):
            if version == 0 and kind != 0:
                continue
            if version < 4:
                request = FindCoordinatorRequest(key=key, key_type=kind)
            else:
                request = FindCoordinatorRequest(coordinator_keys=[key, "two"], key_type=kind)
            while True:
                answer = as_dict(subject.ask(request, version))
                answers = answer["coordinators"] or [answer]
                codes = {one["error_code"] for one in answers}
                if ErrorCode.COORDINATOR_NOT_AVAILABLE not in codes:  # Kafka: until it has one
                    break
            seen.append(answer)
        return seen

    assert_alike(both, scenario)


def describe(subject: Subject, kind: int, name: str, *keys: str, version: int = 4) -> Any:
    resource = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=list(keys) or None
    )
    request = DescribeConfigsRequest(resources=[resource], include_synonyms=True)
    settle(subject.client)
    answer = as_dict(subject.ask(request, version))
    for result in answer["results"]:
        result["configs"].sort(key=lambda one: one["name"])
    return answer


@pytest.mark.parametrize("version", DescribeConfigsRequest.VERSIONS)
def test_describe_configs(both: Both, topic: str, version: int) -> None:
    def scenario(subject: Subject) -> Any:
        subject.create(topic, retention_ms="5000")
        asked: list[Any] = [
            (TOPIC, topic, "retention.ms", "cleanup.policy", "no.such.setting"),
            (TOPIC, f"{topic}-missing", "retention.ms"),
            (TOPIC, "a b", "retention.ms"),
            (TOPIC, "", "retention.ms"),
            (BROKER, "1", "message.max.bytes", "log.retention.ms"),
            (BROKER, "", "message.max.bytes"),
            (BROKER, "2", "message.max.bytes"),
            (BROKER, "one", "message.max.bytes"),
            (0, "x", "a"),
            (3, "x", "a"),
            (77, "x", "a"),
        ]
        return [describe(subject, *one, version=version) for one in asked]

    assert_alike(both, scenario)


def test_a_resource_that_is_described_twice(both: Both, topic: str) -> None:
    def scenario(subject: Subject) -> Any:
        subject.create(topic)
        resources = [
            DescribeConfigsResource(
                resource_type=TOPIC, resource_name=name, configuration_keys=keys
            )
            for name in (topic, topic, f"{topic}-missing", f"{topic}-missing")
            for keys in (["retention.ms"], ["segment.ms"], ["retention.ms"])
        ]
        settle(subject.client)
        return as_dict(subject.ask(DescribeConfigsRequest(resources=resources)))

    assert_alike(both, scenario)


def alter(
    subject: Subject,
    kind: int,
    name: str,
    *changes: tuple[str, int, str | None],
    version: int = 1,
    validate_only: bool = False,
) -> Any:
    resource = incremental_alter_configs.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[
            incremental_alter_configs.AlterableConfig(
                name=key, config_operation=operation, value=value
            )
            for key, operation, value in changes
        ],
    )
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(
        resources=[resource], validate_only=validate_only
    )
    return as_dict(subject.ask(request, version))


@pytest.mark.parametrize("version", [0, 1])
def test_incremental_alter_configs(both: Both, topic: str, version: int) -> None:
    changes: list[Any] = [
        (TOPIC, topic, ("retention.ms", SET, "7000")),
        (TOPIC, topic, ("retention.ms", SET, None)),
        (TOPIC, topic, ("retention.ms", SET, "1"), ("retention.ms", SET, "2")),
        (TOPIC, topic, ("retention.ms", SET, "1"), ("segment.bytes", SET, "x")),
        (TOPIC, topic, ("retention.ms", DELETE, None)),
        (TOPIC, topic, ("cleanup.policy", APPEND, "compact")),
        (TOPIC, topic, ("cleanup.policy", SUBTRACT, "delete")),
        (TOPIC, topic),
        (TOPIC, f"{topic}-missing", ("retention.ms", SET, "7000")),
        (TOPIC, f"{topic}-missing", ("retention.ms", SET, "x")),
        (TOPIC, f"{topic}-missing", ("no.such.setting", SET, "x")),
        (TOPIC, "a b", ("retention.ms", SET, "x")),
        (TOPIC, "a b", ("retention.ms", SET, "7000")),
        (TOPIC, "", ("retention.ms", SET, "7000")),
        (BROKER, "2", ("message.max.bytes", SET, "2000000")),
        (BROKER, "one", ("message.max.bytes", SET, "2000000")),
        (0, "x", ("a", SET, "b")),
        (77, "x", ("a", SET, "b")),
    ]

    def scenario(subject: Subject) -> Any:
        subject.create(topic)
        seen = [alter(subject, *one, version=version) for one in changes]
        seen.append(describe(subject, TOPIC, topic, "retention.ms", "cleanup.policy"))
        return seen

    assert_alike(both, scenario)


def test_an_operation_that_is_none(shared_broker: OttlaProcess, topic: str) -> None:
    """Kafka: UNKNOWN_SERVER_ERROR."""
    subject = Subject("Ottla", shared_broker.bootstrap)
    subject.create(topic)
    answer = alter(subject, TOPIC, topic, ("retention.ms", 9, "1"))
    assert answer["responses"][0]["error_code"] == ErrorCode.INVALID_REQUEST
    subject.close()


def test_alter_only_to_validate(both: Both, topic: str) -> None:
    def scenario(subject: Subject) -> Any:
        subject.create(topic)
        return [
            alter(subject, TOPIC, topic, ("retention.ms", SET, "7000"), validate_only=True),
            alter(subject, TOPIC, topic, ("retention.ms", SET, "x"), validate_only=True),
            describe(subject, TOPIC, topic, "retention.ms"),
        ]

    assert_alike(both, scenario)


@pytest.mark.parametrize("version", alter_configs.AlterConfigsRequest.VERSIONS)
def test_alter_configs(both: Both, topic: str, version: int) -> None:
    """All settings of a resource at once: what is not named goes."""

    def replace(subject: Subject, kind: int, name: str, **configs: Any) -> Any:
        resource = alter_configs.AlterConfigsResource(
            resource_type=kind,
            resource_name=name,
            configs=[
                alter_configs.AlterableConfig(name=key.replace("_", "."), value=value)
                for key, value in configs.items()
            ],
        )
        request = alter_configs.AlterConfigsRequest(resources=[resource])
        return as_dict(subject.ask(request, version))

    def scenario(subject: Subject) -> Any:
        subject.create(topic, segment_ms="5000")
        return [
            replace(subject, TOPIC, topic, retention_ms="7000"),
            describe(subject, TOPIC, topic, "retention.ms", "segment.ms"),
            replace(subject, TOPIC, topic, retention_ms="x"),
            replace(subject, TOPIC, topic, no_such_setting="x"),
            replace(subject, TOPIC, topic, retention_ms=None),
            replace(subject, TOPIC, f"{topic}-missing", retention_ms="1"),
            replace(subject, TOPIC, f"{topic}-missing", retention_ms="x"),
            replace(subject, TOPIC, f"{topic}-missing", no_such_setting="x"),
            replace(subject, BROKER, "7", message_max_bytes="1"),
            replace(subject, 77, "x"),
            replace(subject, TOPIC, topic),
            describe(subject, TOPIC, topic, "retention.ms", "segment.ms"),
        ]

    assert_alike(both, scenario)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_acls_without_an_authorizer(both: Both, version: int) -> None:
    acl: dict[str, Any] = {"principal": "User:a", "host": "*", "operation": 3, "permission_type": 3}
    pattern: dict[str, Any] = {"resource_type": TOPIC, "resource_name": "t"}
    every: dict[str, Any] = {"resource_type_filter": 1, "operation": 1, "permission_type": 1}

    def scenario(subject: Subject) -> Any:
        requests = [
            DescribeAclsRequest(**every),
            CreateAclsRequest(creations=[AclCreation(**pattern, **acl)] * 2),
            DeleteAclsRequest(filters=[DeleteAclsFilter(**every)] * 2),
        ]
        return [as_dict(subject.ask(request, version)) for request in requests]

    assert_alike(both, scenario)


@pytest.mark.parametrize("version", DescribeLogDirsRequest.VERSIONS)
def test_describe_log_dirs(both: Both, topic: str, version: int) -> None:
    def scenario(subject: Subject) -> Any:
        subject.create(topic, 2)
        subject.produce(topic, a_batch(b"v"))
        asked: list[tuple[str, list[int]]] = [(topic, [0, 1]), (topic, [7]), ("missing", [0])]
        answers = [
            as_dict(
                subject.ask(
                    DescribeLogDirsRequest(
                        topics=[DescribableLogDirTopic(topic=name, partitions=partitions)]
                    ),
                    version,
                )
            )
            for name, partitions in asked
        ]
        for answer in answers:
            for result in answer["results"]:
                for one in result["topics"]:
                    one["partitions"].sort(key=lambda partition: partition["partition_index"])
        return answers

    assert_alike(both, scenario)


@pytest.mark.parametrize("policy", ["delete", "compact", "compact,delete"])
def test_delete_records(both: Both, topic: str, policy: str) -> None:
    def delete(subject: Subject, offset: int, partition: int = 0) -> Any:
        asked = DeleteRecordsPartition(partition_index=partition, offset=offset)
        request = DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name=topic, partitions=[asked])], timeout_ms=10_000
        )
        return as_dict(subject.ask(request))

    def scenario(subject: Subject) -> Any:
        subject.create(topic, cleanup_policy=policy)
        for _ in range(3):
            subject.produce(topic, build_batch([Record(0, NOW_MS, b"k", b"v")]))
        return [delete(subject, offset) for offset in (99, -2, 1, 0, -1)] + [delete(subject, 0, 7)]

    assert_alike(both, scenario)


@pytest.mark.parametrize("version", ElectLeadersRequest.VERSIONS)
def test_elections(both: Both, topic: str, version: int) -> None:
    """Of all, of some and of none."""

    def scenario(subject: Subject) -> Any:
        subject.create(topic, 2)
        asked: list[list[TopicPartitions] | None] = [
            None,
            [],
            [
                TopicPartitions(topic=topic, partitions=[0, 1]),
                TopicPartitions(topic=f"{topic}-missing", partitions=[0]),
            ],
        ]
        answers = [
            as_dict(subject.ask(ElectLeadersRequest(topic_partitions=each), version))
            for each in asked
        ]
        # Kafka names every topic when it is asked for all, also those of which it has no result.
        results = answers[0]["replica_election_results"]
        answers[0]["replica_election_results"] = [
            each for each in results if each["partition_result"]
        ]
        return answers

    assert_alike(both, scenario)


@pytest.mark.parametrize("version", AlterPartitionReassignmentsRequest.VERSIONS)
def test_reassignments(both: Both, topic: str, version: int) -> None:
    """To where they are, to nowhere, and back."""

    def scenario(subject: Subject) -> Any:
        subject.create(topic, 4)
        partitions = [
            ReassignablePartition(partition_index=number, replicas=replicas)
            for number, replicas in enumerate([[1], [], [1, 99], None, [1]])
        ]
        moves = AlterPartitionReassignmentsRequest(
            topics=[ReassignableTopic(name=topic, partitions=partitions)]
        )
        some = ListPartitionReassignmentsTopics(name=topic, partition_indexes=[0, 9])
        return [
            as_dict(subject.ask(request, newest))
            for request, newest in (
                (moves, version),
                (ListPartitionReassignmentsRequest(topics=None), None),
                (ListPartitionReassignmentsRequest(topics=[some]), None),
            )
        ]

    assert_alike(both, scenario)
