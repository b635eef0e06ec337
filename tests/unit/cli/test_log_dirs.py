"""Sizes on the disks of brokers, asked of one behind a socket."""

from __future__ import annotations

from types import SimpleNamespace

from ottla.cli.client import Cluster
from ottla.cli.log_dirs import Replica, replicas_on_disk, sizes_by_topic
from ottla.kernel.errors import ErrorCode
from ottla.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from tests.support.socket_broker import HOST, SocketBroker

RESPONSE = DescribeLogDirsResponse(
    results=[
        DescribeLogDirsResult(
            log_dir=log_dir,
            topics=[
                DescribeLogDirsTopic(
                    name="clicks",
                    partitions=[
                        DescribeLogDirsPartition(partition_index=index, partition_size=size)
                    ],
                )
            ],
        )
        for index, (log_dir, size) in enumerate([("/a", 100), ("/b", 20)])
    ]
)


def asked(broker: SocketBroker, **properties: str) -> list[Replica] | None:
    brokers = [SimpleNamespace(id=id, host=HOST, port=broker.port) for id in (1, 2)]
    named = {name.replace("_", "."): value for name, value in properties.items()}
    return replicas_on_disk(Cluster(f"{HOST}:{broker.port}", named), brokers)


def test_every_copy_counts() -> None:
    with SocketBroker() as broker:
        broker.answers[DescribeLogDirsRequest] = lambda _: RESPONSE
        replicas = asked(broker)

    assert replicas is not None
    assert replicas[:2] == [Replica(1, "clicks", 0, 100), Replica(1, "clicks", 1, 20)]
    assert {replica.broker_id for replica in replicas} == {1, 2}
    assert sizes_by_topic(replicas) == {"clicks": 240}


def test_what_cannot_be_asked_is_not_known() -> None:
    refused = DescribeLogDirsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    with SocketBroker() as broker:
        broker.answers[DescribeLogDirsRequest] = lambda _: refused
        assert asked(broker) is None
        broker.answers[DescribeLogDirsRequest] = lambda _: None  # it hangs up
        assert asked(broker) is None
        assert asked(broker, security_protocol="SSL") is None
