"""Transactions as they are now: what their coordinators say, and what the leaders of partitions do.

confluent-kafka's AdminClient has none of these requests, so they go over connections of our own.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from ottla.cli.client import REQUEST_TIMEOUT_S, Cluster, addresses_of
from ottla.cli.errors import Failure
from ottla.cli.offsets import Partition
from ottla.cli.suggestions import no_such_topic
from ottla.client.cluster import ClusterClient, Node
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.network import SystemNetwork
from ottla.kernel.workers import ThreadWorkers
from ottla.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from ottla.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from ottla.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse

Json = dict[str, Any]
T = TypeVar("T")

PARTITIONS_ASKED_MAX = 500
"""A broker is asked about so many at once: a whole broker's worth would be a giant request."""

_SETTLE_TIMEOUT_S = 10.0
_SETTLE_PAUSE_S = 0.1
_SETTLING = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    }
)
"""A coordinator or a leader is on its way. The first that asks for a transaction coordinator makes
`__transaction_state`."""


class Producer(NamedTuple):
    """What a partition's leader remembers of a producer."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int | None
    last_sequence: int | None
    last_timestamp_ms: int | None
    start_offset: int | None
    """Of its open transaction."""


def run(cluster: Cluster, work: Callable[[ClusterClient], Coroutine[Any, Any, T]]) -> T:
    """Does the work with a client of the cluster. Raises Failure in words."""
    protocol = cluster.properties.get("security.protocol", "plaintext")
    if protocol.lower() != "plaintext":
        raise Failure(f"transactions cannot speak {protocol} yet; use kafka-transactions.sh for it")
    cluster.check_reachable()
    try:
        return asyncio.run(_run(cluster, work))
    except KafkaError as error:
        raise Failure(_words(error)) from error
    except (OSError, TimeoutError) as error:
        reason = str(error) or "it took too long"
        raise Failure(f"{cluster.effective_bootstrap} does not answer: {reason}") from error


async def _run(cluster: Cluster, work: Callable[[ClusterClient], Coroutine[Any, Any, T]]) -> T:
    network = SystemNetwork(ThreadWorkers())
    bootstrap = addresses_of(cluster.effective_bootstrap)
    client = ClusterClient(network, bootstrap, client_id="ottla-cli")
    try:
        async with asyncio.timeout(REQUEST_TIMEOUT_S):
            return await work(client)
    finally:
        client.close()


def _words(error: KafkaError) -> str:
    if error.code == ErrorCode.UNSUPPORTED_VERSION:
        return f"the broker is too old for this ({error.message})"
    return f"{error.message} ({error.code.name})" if error.message else error.code.name


async def settled(ask: Callable[[], Awaitable[T]]) -> T:
    """Asks again as long as a coordinator or a leader is on its way, within limits."""
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + _SETTLE_TIMEOUT_S
    while True:
        try:
            return await ask()
        except KafkaError as error:
            if error.code not in _SETTLING or loop.time() >= deadline_s:
                raise
        await asyncio.sleep(_SETTLE_PAUSE_S)


# --- coordinators ------------------------------------------------------------------------------


async def listed_transactions(
    client: ClusterClient, request: ListTransactionsRequest
) -> list[Json]:
    """Of every broker: each knows those that it coordinates."""
    found: list[Json] = []
    for node in (await client.nodes()).values():

        async def ask(node: Node = node) -> ListTransactionsResponse:
            response = await client.ask(request, ListTransactionsResponse, node=node)
            if response.error_code:
                raise KafkaError(ErrorCode(response.error_code), f"broker {node.id} lists nothing")
            return response

        response = await settled(ask)
        if response.unknown_state_filters:
            unknown = ", ".join(response.unknown_state_filters)
            raise Failure(f"broker {node.id} knows no state {unknown}")
        found += [
            {
                "transactional_id": state.transactional_id,
                "coordinator_id": node.id,
                "producer_id": state.producer_id,
                "state": state.transaction_state,
            }
            for state in response.transaction_states
        ]
    return sorted(found, key=lambda one: (one["transactional_id"], one["coordinator_id"]))


async def described_transaction(
    client: ClusterClient, transactional_id: str, now_ms: int
) -> Json | None:
    """None if its coordinator knows no such id."""

    async def ask() -> Json | None:
        node = await client.transaction_coordinator(transactional_id)
        request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
        response = await client.ask(request, DescribeTransactionsResponse, node=node)
        (state,) = response.transaction_states
        if state.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            return None
        if state.error_code:
            raise KafkaError(ErrorCode(state.error_code), f"cannot describe {transactional_id!r}")
        start_time_ms = _unless_negative(state.transaction_start_time_ms)
        return {
            "transactional_id": transactional_id,
            "state": state.transaction_state,
            "coordinator": node._asdict(),
            "producer_id": state.producer_id,
            "producer_epoch": state.producer_epoch,
            "transaction_timeout_ms": state.transaction_timeout_ms,
            "start_time_ms": start_time_ms,
            "duration_ms": None if start_time_ms is None else max(0, now_ms - start_time_ms),
            "partitions": [
                {"topic": topic.topic, "partition": partition}
                for topic in state.topics
                for partition in topic.partitions
            ],
        }

    return await settled(ask)


async def transactions_of(
    client: ClusterClient, producer_ids: Iterable[int], now_ms: int
) -> dict[int, Json]:
    """By producer id: what coordinators know. Of an id that none knows nothing is there."""
    request = ListTransactionsRequest(producer_id_filters=sorted(set(producer_ids)))
    found: dict[int, Json] = {}
    for listing in await listed_transactions(client, request):
        described = await described_transaction(client, listing["transactional_id"], now_ms)
        if described is not None:
            found[listing["producer_id"]] = described
    return found


# --- partitions --------------------------------------------------------------------------------


async def located_partitions(
    client: ClusterClient,
    topic: str | None = None,
    partition: int | None = None,
    broker_id: int | None = None,
) -> tuple[dict[Partition, Node], dict[Partition, str]]:
    """Who is to be asked about which partition: its leader, or the broker that is named, which
    must have a replica of it; and the partitions about which nobody can be asked, and why."""
    metadata = await client.metadata(None if topic is None else [topic])
    nodes = await client.nodes()
    if broker_id is not None and broker_id not in nodes:
        ids = ", ".join(map(str, sorted(nodes)))
        raise Failure(f"there is no broker {broker_id}; there are {ids}")
    located: dict[Partition, Node] = {}
    failures: dict[Partition, str] = {}
    for found in metadata.topics:
        if found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            if topic is None:
                continue  # of all topics this one was just deleted
            there = (await client.metadata(None)).topics
            raise no_such_topic(topic, [one.name for one in there if one.name])
        if found.error_code:
            raise KafkaError(ErrorCode(found.error_code), f"topic {found.name!r}")
        for part in found.partitions:
            key = (found.name or "", part.partition_index)
            node = nodes.get(part.leader_id if broker_id is None else broker_id)
            if partition is not None and part.partition_index != partition:
                continue
            if broker_id is not None and broker_id not in part.replica_nodes:
                continue
            if node is None:
                failures[key] = "it has no leader"
            else:
                located[key] = node
    if partition is not None and not located and not failures:
        where = f" on broker {broker_id}" if broker_id is not None else ""
        raise Failure(f"there is no partition {partition} of {topic!r}{where}")
    return located, failures


async def producers_in(
    client: ClusterClient, located: Mapping[Partition, Node]
) -> tuple[dict[Partition, list[Producer]], dict[Partition, str]]:
    """Who has written to each partition, and why that is not known of some."""
    found: dict[Partition, list[Producer]] = {}
    failures: dict[Partition, str] = {}
    by_node: dict[Node, list[Partition]] = {}
    for key in sorted(located):
        by_node.setdefault(located[key], []).append(key)
    for node, keys in by_node.items():
        for start in range(0, len(keys), PARTITIONS_ASKED_MAX):
            request = _producers_request(keys[start : start + PARTITIONS_ASKED_MAX])
            response = await client.ask(request, DescribeProducersResponse, node=node)
            for topic in response.topics:
                for part in topic.partitions:
                    key = (topic.name, part.partition_index)
                    if part.error_code:
                        failures[key] = ErrorCode(part.error_code).name
                    else:
                        found[key] = [_producer(state) for state in part.active_producers]
    return found, failures


def _producers_request(partitions: Sequence[Partition]) -> DescribeProducersRequest:
    topics: dict[str, TopicRequest] = {}
    for name, number in partitions:
        topics.setdefault(name, TopicRequest(name=name)).partition_indexes.append(number)
    return DescribeProducersRequest(topics=list(topics.values()))


def _producer(state: Any) -> Producer:
    return Producer(
        producer_id=state.producer_id,
        producer_epoch=state.producer_epoch,
        coordinator_epoch=_unless_negative(state.coordinator_epoch),
        last_sequence=_unless_negative(state.last_sequence),
        last_timestamp_ms=_unless_negative(state.last_timestamp),
        start_offset=_unless_negative(state.current_txn_start_offset),
    )


def _unless_negative(value: int) -> int | None:
    return None if value < 0 else value


def now_ms() -> int:
    return int(time.time() * 1000)
