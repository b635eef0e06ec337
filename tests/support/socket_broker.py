"""Brokers behind real sockets that answer what a test tells them to, each from a thread."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable
from typing import Any

from ottla.kernel.ids import TopicId
from ottla.kernel.transport import Part
from ottla.wire.api import APIS, ApiKey
from ottla.wire.codec import codec
from ottla.wire.header import append_response, decode_request_header, response_header_version
from ottla.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
)
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.wire.schema import Request, Response

Answer = Callable[[Any], Response | bytes | None]
"""Bytes are sent as they are; None closes the connection."""

TOPIC_ID = TopicId(bytes(range(16)))
HOST = "127.0.0.1"


class SocketBroker:
    """A whole cluster of one. Has a topic `clicks` with two partitions, which it leads."""

    def __init__(self) -> None:
        self._listener = socket.create_server((HOST, 0))
        self.port: int = self._listener.getsockname()[1]
        self.answers: dict[type[Request], Answer] = {
            ApiVersionsRequest: self._api_versions,
            MetadataRequest: lambda request: self.metadata(),
        }
        self.versions = {key: api.advertised_versions for key, api in APIS.items()}
        self.transaction_version = 2
        self.asked: list[tuple[Request, int]] = []
        """Request and version, but for ApiVersions."""
        self.connections: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def __enter__(self) -> SocketBroker:
        return self

    def __exit__(self, *_: object) -> None:
        # Closing does not wake a thread that accepts; shutting down does.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.drop_connections()
        for thread in self._threads:
            thread.join()

    @property
    def bootstrap(self) -> list[tuple[str, int]]:
        return [(HOST, self.port)]

    def drop_connections(self) -> None:
        for connection in self.connections:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # its client was quicker
        self.connections.clear()

    def requests(self, kind: type[Any]) -> list[Any]:
        return [request for request, _ in self.asked if isinstance(request, kind)]

    def metadata(self, **fields: Any) -> MetadataResponse:
        partitions = [
            MetadataResponsePartition(partition_index=index, leader_id=1, leader_epoch=3)
            for index in range(2)
        ]
        topic = MetadataResponseTopic(name="clicks", topic_id=TOPIC_ID, partitions=partitions)
        node = MetadataResponseBroker(node_id=1, host=HOST, port=self.port)
        return MetadataResponse(**{"brokers": [node], "topics": [topic], **fields})

    def _api_versions(self, request: ApiVersionsRequest) -> ApiVersionsResponse:
        feature = FinalizedFeatureKey(
            name="transaction.version", max_version_level=self.transaction_version
        )
        return ApiVersionsResponse(
            api_keys=[
                ApiVersion(api_key=key, min_version=known[0], max_version=known[-1])
                for key, known in self.versions.items()
            ],
            finalized_features_epoch=1,
            finalized_features=[feature],
        )

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections.append(connection)
            self._threads.append(threading.Thread(target=self._serve, args=[connection]))
            self._threads[-1].start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as stream:
            try:
                while size := stream.read(4):
                    answer = self._answer(stream.read(struct.unpack(">i", size)[0]))
                    if answer is None:
                        return
                    connection.sendall(answer)
            except OSError:
                return  # the client, or the test, has closed it

    def _answer(self, frame: bytes) -> bytes | None:
        header, position = decode_request_header(frame)
        api, version = APIS[ApiKey(header.api_key)], header.api_version
        request, _ = codec(api.request, version).decode(frame, position)
        if api.key != ApiKey.API_VERSIONS:
            self.asked.append((request, version))
        response = self.answers[api.request](request)
        if response is None or isinstance(response, bytes):
            return response
        parts: list[Part] = []
        encode = codec(api.response, version).encode
        header_version = response_header_version(api.key, version)
        append_response(header.correlation_id, header_version, encode, response, parts)
        return b"".join(parts)  # type: ignore[arg-type]
