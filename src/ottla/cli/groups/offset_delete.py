"""OffsetDelete, which confluent-kafka's AdminClient lacks: sent to the group's coordinator over a
connection of our own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from ottla.cli.client import REQUEST_TIMEOUT_S, Cluster
from ottla.cli.errors import Failure
from ottla.cli.offsets import Partition
from ottla.client.connection import ClientConnection
from ottla.kernel.errors import ErrorCode
from ottla.kernel.network import SystemNetwork
from ottla.kernel.workers import ThreadWorkers
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)


def delete_offsets(
    cluster: Cluster, host: str, port: int, group: str, partitions: Iterable[Partition]
) -> dict[Partition, ErrorCode]:
    """What became of each. Raises Failure when none was tried."""
    protocol = cluster.properties.get("security.protocol", "plaintext")
    if protocol.lower() != "plaintext":
        raise Failure(
            f"delete-offsets cannot speak {protocol} yet; use kafka-consumer-groups.sh for it"
        )
    request = request_for(group, partitions)
    try:
        response = asyncio.run(_ask(host, port, request))
    except (OSError, TimeoutError) as error:
        raise Failure(
            f"the coordinator of {group!r} at {host}:{port} does not answer: {error}"
        ) from error
    if response.error_code:
        code = ErrorCode(response.error_code)
        raise Failure(f"could not delete offsets of {group!r}: {code.name}")
    return {
        (topic.name, part.partition_index): ErrorCode(part.error_code)
        for topic in response.topics
        for part in topic.partitions
    }


def request_for(group: str, partitions: Iterable[Partition]) -> OffsetDeleteRequest:
    topics: dict[str, OffsetDeleteRequestTopic] = {}
    for name, number in partitions:
        topic = topics.setdefault(name, OffsetDeleteRequestTopic(name=name))
        topic.partitions.append(OffsetDeleteRequestPartition(partition_index=number))
    return OffsetDeleteRequest(group_id=group, topics=list(topics.values()))


async def _ask(host: str, port: int, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
    network = SystemNetwork(ThreadWorkers())
    async with asyncio.timeout(REQUEST_TIMEOUT_S):
        connection = await ClientConnection.open(network, host, port, client_id="ottla-cli")
        try:
            return await connection.call(request, OffsetDeleteResponse, 0)
        finally:
            connection.close()
