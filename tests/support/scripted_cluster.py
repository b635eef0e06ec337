"""Brokers on a simulated network that answer what a test tells them to."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from ottla.client.cluster import ClusterClient
from ottla.kernel.transport import Listener, Part, Transport
from ottla.testing.loop import VirtualLoop, run_virtual
from ottla.testing.network import SimulatedNetwork
from ottla.wire.api import APIS, Api, ApiKey
from ottla.wire.codec import codec
from ottla.wire.framing import FrameReader
from ottla.wire.header import append_response, decode_request_header, response_header_version
from ottla.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker
from ottla.wire.schema import Request, Response

T = TypeVar("T")
Answer = Callable[[int, Any], Response | asyncio.Future[Response] | None]
"""Of the broker with this id to this request; None closes the connection. A future is answered when
it is done: the test sees to it that answers keep the order of requests."""

FIRST_PORT = 9000
_FRAME_BYTES_MAX = 1 << 20


class ScriptedCluster:
    """Brokers 1 to `broker_count`, at ports from 9001 on. Lives as long as its loop."""

    def __init__(
        self,
        loop: VirtualLoop,
        broker_count: int = 2,
        *,
        network: SimulatedNetwork | None = None,
    ) -> None:
        self.network = network or SimulatedNetwork(loop, random.Random(0))
        self.node_ids = range(1, broker_count + 1)
        self.answers: dict[type[Request], Answer] = {
            ApiVersionsRequest: self._api_versions,
            MetadataRequest: lambda _, request: MetadataResponse(brokers=self.nodes()),
        }
        self.versions = {key: api.advertised_versions for key, api in APIS.items()}
        self.asked: list[tuple[int, Request, int]] = []
        """Broker, request and version, but for ApiVersions."""
        self.connections: list[_Connection] = []
        self.silence_of_versions: asyncio.Future[Response] | None = None
        """What ApiVersions waits for, where a test has set it."""
        self._listeners: dict[int, Listener] = {}
        for node_id in self.node_ids:
            self.listen(node_id)

    def listen(self, node_id: int) -> None:
        def accept(transport: Transport) -> _Connection:
            self.connections.append(_Connection(self, node_id, transport))
            return self.connections[-1]

        listener = self.network.listen("localhost", FIRST_PORT + node_id, accept)
        listener.start()
        self._listeners[node_id] = listener

    def stop(self, node_id: int) -> None:
        """Accepts no more connections; those that are open stay."""
        self._listeners.pop(node_id).close()

    def client(self) -> ClusterClient:
        return ClusterClient(self.network, [("localhost", FIRST_PORT + 1)])

    def nodes(self) -> list[MetadataResponseBroker]:
        return [
            MetadataResponseBroker(node_id=id, host="localhost", port=FIRST_PORT + id)
            for id in self.node_ids
        ]

    def _api_versions(
        self, node_id: int, request: ApiVersionsRequest
    ) -> ApiVersionsResponse | asyncio.Future[Response]:
        if self.silence_of_versions is not None:
            return self.silence_of_versions
        return ApiVersionsResponse(
            api_keys=[
                ApiVersion(api_key=key, min_version=known[0], max_version=known[-1])
                for key, known in self.versions.items()
            ]
        )


class _Connection:
    def __init__(self, cluster: ScriptedCluster, node_id: int, transport: Transport) -> None:
        self.node_id = node_id
        self.transport = transport
        self._cluster = cluster
        shared = memoryview(bytearray(64 * 1024))
        self._frames = FrameReader(shared, _FRAME_BYTES_MAX, _FRAME_BYTES_MAX)

    def get_buffer(self) -> memoryview:
        return self._frames.get_buffer()

    def bytes_received(self, count: int) -> None:
        for frame in self._frames.bytes_received(count):
            self._answer(bytes(frame))

    def bytes_sent(self) -> None:
        pass

    def connection_lost(self, error: BaseException | None) -> None:
        pass

    def _answer(self, frame: bytes) -> None:
        header, position = decode_request_header(frame)
        api, version = APIS[ApiKey(header.api_key)], header.api_version
        request, _ = codec(api.request, version).decode(frame, position)
        if api.key != ApiKey.API_VERSIONS:
            self._cluster.asked.append((self.node_id, request, version))
        response = self._cluster.answers[api.request](self.node_id, request)
        if response is None:
            self.transport.close()
        elif isinstance(response, asyncio.Future):
            response.add_done_callback(
                lambda done: self._send(api, version, header.correlation_id, done.result())
            )
        else:
            self._send(api, version, header.correlation_id, response)

    def _send(self, api: Api, version: int, correlation_id: int, response: Response) -> None:
        parts: list[Part] = []
        encode = codec(api.response, version).encode
        header_version = response_header_version(api.key, version)
        append_response(correlation_id, header_version, encode, response, parts)
        self.transport.send(parts)


def run_scripted(
    scenario: Callable[[ScriptedCluster, ClusterClient], Coroutine[Any, Any, T]],
) -> T:
    """Runs it in virtual time, with a cluster and a client of it."""

    async def main(loop: VirtualLoop) -> T:
        cluster = ScriptedCluster(loop)
        client = cluster.client()
        try:
            return await scenario(cluster, client)
        finally:
            client.close()

    return run_virtual(main)
