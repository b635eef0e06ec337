"""A cluster as a client sees it: its brokers, and requests to each in the newest version that both
sides know."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from ottla.client.connection import ClientConnection
from ottla.client.versions import Versions, listed_versions, newest_common
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.transport import Network
from ottla.wire.api import ApiKey
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.wire.schema import Request, Response

R = TypeVar("R", bound=Response)

TRANSACTION_COORDINATOR = 1


class Node(NamedTuple):
    id: int
    host: str
    port: int


class _Broker(NamedTuple):
    connection: ClientConnection
    versions: Versions


class ClusterClient:
    """Made by whoever asks a cluster, and closed by it. Keeps one connection to each broker that
    was asked, and what that broker speaks; a connection that was lost is opened again."""

    def __init__(
        self, network: Network, bootstrap: Sequence[tuple[str, int]], *, client_id: str = "ottla"
    ) -> None:
        assert bootstrap, "there is at least one address to begin with"
        self._network = network
        self._bootstrap = bootstrap
        self._client_id = client_id
        self._nodes: dict[int, Node] = {}
        self._opened: dict[tuple[str, int], _Broker] = {}

    def close(self) -> None:
        for broker in self._opened.values():
            broker.connection.close()
        self._opened.clear()

    async def ask(
        self, request: Request, response_class: type[R], *, node: Node | None = None
    ) -> R:
        """Any broker, or this one. Raises ConnectionError, and KafkaError where the broker does
        not know the API, or no version of it that can say what the request does."""
        broker = await (self._any() if node is None else self._open(node.host, node.port))
        version = newest_common(request.API_KEY, broker.versions)
        try:
            return await broker.connection.call(request, response_class, version)
        except ValueError as error:  # a field that this version lacks and must not lose
            name = ApiKey(request.API_KEY).name
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"{name}: {error}") from error

    async def metadata(self, topics: Sequence[str] | None = ()) -> MetadataResponse:
        """Of these topics, or of all if None; also learns who the brokers are."""
        wanted = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        response = await self.ask(request, MetadataResponse)
        self._nodes = {
            broker.node_id: Node(broker.node_id, broker.host, broker.port)
            for broker in response.brokers
        }
        return response

    async def nodes(self) -> dict[int, Node]:
        if not self._nodes:
            await self.metadata()
        return self._nodes

    async def transaction_coordinator(self, transactional_id: str) -> Node:
        """Raises KafkaError: COORDINATOR_NOT_AVAILABLE until `__transaction_state` is there."""
        request = FindCoordinatorRequest(
            key_type=TRANSACTION_COORDINATOR, coordinator_keys=[transactional_id]
        )
        response = await self.ask(request, FindCoordinatorResponse)
        (found,) = response.coordinators
        if found.error_code:
            raise KafkaError(ErrorCode(found.error_code), found.error_message or "")
        return Node(found.node_id, found.host, found.port)

    async def _any(self) -> _Broker:
        """One that is connected, else the first that answers."""
        for broker in self._opened.values():
            if not broker.connection.is_lost:
                return broker
        known = [(node.host, node.port) for node in self._nodes.values()]
        problems: list[OSError] = []
        for host, port in [*self._bootstrap, *known]:
            try:
                return await self._open(host, port)
            except OSError as error:
                problems.append(error)
        raise problems[0]

    async def _open(self, host: str, port: int) -> _Broker:
        broker = self._opened.get((host, port))
        if broker is not None and not broker.connection.is_lost:
            return broker
        connection = await ClientConnection.open(
            self._network, host, port, client_id=self._client_id
        )
        try:
            # Version 0: there is no broker that would not understand it.
            response = await connection.call(ApiVersionsRequest(), ApiVersionsResponse, 0)
        except (ConnectionError, asyncio.CancelledError):
            connection.close()
            raise
        broker = self._opened[host, port] = _Broker(connection, listed_versions(response))
        return broker
