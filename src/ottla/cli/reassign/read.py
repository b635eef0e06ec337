"""A cluster as a reassignment sees it: its brokers, who has which partition, and what moves.

confluent-kafka's AdminClient has no requests for reassignments, so they go over connections of our
own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from confluent_kafka.admin import AdminClient

from ottla.cli.client import METADATA_TIMEOUT_S, REQUEST_TIMEOUT_S, Cluster, addresses_of
from ottla.cli.command_line import command_line
from ottla.cli.errors import Failure
from ottla.cli.offsets import Partition
from ottla.cli.reassign.balanced_assignment import Assignment, Replicas
from ottla.cli.selection import Selection
from ottla.cli.suggestions import no_such_topic
from ottla.client.blocking import ClientError
from ottla.client.blocking_cluster import BlockingCluster
from ottla.client.blocking_reassignments import Reassignment, list_reassignments
from ottla.kernel.errors import ErrorCode, KafkaError

_PATIENCE_S = 30.0


class ClusterState(NamedTuple):
    nodes: list[Any]
    """Those that are alive."""
    replicas: Assignment
    """Of every partition, as it will be when what moves now is done."""
    moving: dict[Partition, Reassignment]

    @property
    def racks(self) -> dict[int, str | None]:
        return {node.id: node.rack for node in self.nodes}

    @property
    def topics(self) -> list[str]:
        return sorted({topic for topic, _ in self.replicas})


@contextmanager
def connected(cluster: Cluster) -> Iterator[BlockingCluster]:
    """Raises Failure in words."""
    protocol = cluster.properties.get("security.protocol", "plaintext")
    if protocol.lower() != "plaintext":
        raise Failure(
            f"reassign cannot speak {protocol} yet; use kafka-reassign-partitions.sh for it"
        )
    try:
        with BlockingCluster(
            addresses_of(cluster.effective_bootstrap),
            client_id="ottla-cli",
            request_timeout_s=REQUEST_TIMEOUT_S,
            retry_timeout_s=_PATIENCE_S,
        ) as client:
            yield client
    except ClientError as error:
        raise Failure(f"the cluster at {cluster.effective_bootstrap}: {error}") from error
    except KafkaError as error:
        raise Failure(words_of(error)) from error


def words_of(error: KafkaError) -> str:
    if error.code == ErrorCode.UNSUPPORTED_VERSION:
        return "the brokers know no reassignments: they are older than Kafka 2.4"
    name = error.code.name
    text = (error.message or "").rstrip(".")
    return f"{text} ({name})" if text and text != name else name


def read_state(admin: AdminClient, client: BlockingCluster) -> ClusterState:
    described = admin.describe_cluster(request_timeout=REQUEST_TIMEOUT_S).result()
    moving = {(each.topic, each.partition): one for each, one in list_reassignments(client).items()}
    replicas: Assignment = {}
    for name, topic in admin.list_topics(timeout=METADATA_TIMEOUT_S).topics.items():
        for number, part in topic.partitions.items():
            replicas[name, number] = tuple(part.replicas)
    replicas |= {key: one.target for key, one in moving.items() if key in replicas}
    return ClusterState(sorted(described.nodes, key=lambda node: node.id), replicas, moving)


def selected(state: ClusterState, selection: Selection) -> list[Partition]:
    """Raises Failure for topics and partitions that are not there. Nothing selected is all."""
    if not selection:
        return sorted(state.replicas)
    found: list[Partition] = []
    for topic, numbers in selection.items():
        there = [number for name, number in state.replicas if name == topic]
        if not there:
            raise no_such_topic(topic, state.topics)
        check_partitions(topic, numbers or (), there)
        found += [(topic, number) for number in (numbers or there)]
    return sorted(found)


def check_partitions(topic: str, wanted: Collection[int], there: Collection[int]) -> None:
    if missing := sorted(set(wanted).difference(there)):
        raise Failure(
            f"{topic!r} has {len(there)} partition{'' if len(there) == 1 else 's'}, "
            f"and no {', '.join(map(str, missing))} among them"
        )


def check_brokers(state: ClusterState, wanted: Collection[int]) -> None:
    """A reassignment to one that is not alive would be refused, or never end."""
    if missing := sorted(set(wanted).difference(state.racks)):
        missing_text = ", ".join(map(str, missing))
        raise Failure(
            f"there is no broker {missing_text}; the cluster has {', '.join(map(str, state.racks))}"
        )


def check_assignment(state: ClusterState, wanted: Mapping[Partition, Replicas]) -> None:
    """That it can be begun: all that it names is there, and nothing of it moves elsewhere."""
    by_topic: Selection = {}
    for topic, number in wanted:
        by_topic[topic] = [*(by_topic.get(topic) or ()), number]
    selected(state, by_topic)
    for key, target in wanted.items():
        origin = state.moving[key].origin if key in state.moving else state.replicas[key]
        # One that is down may keep what it has.
        check_brokers(state, set(target).difference(origin))
        if key in state.moving and state.moving[key].target != target:
            raise Failure(
                f"{key[0]}:{key[1]} is being moved to {_ids(state.moving[key].target)} already; "
                f"wait for that (`{command_line('reassign status')}`), or cancel it "
                f"(`{command_line('reassign cancel')}`)"
            )


def _ids(replicas: Replicas) -> str:
    return ",".join(map(str, replicas))
