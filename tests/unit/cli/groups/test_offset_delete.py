from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ottla.cli.client import Cluster
from ottla.cli.errors import Failure
from ottla.cli.groups.offset_delete import delete_offsets, request_for
from ottla.kernel.errors import ErrorCode
from ottla.kernel.transport import Part
from ottla.wire.codec import codec
from ottla.wire.header import decode_request_header
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

PLAIN = Cluster("localhost:9092", {})


@contextmanager
def coordinator(
    response: OffsetDeleteResponse | None, asked: list[OffsetDeleteRequest]
) -> Iterator[int]:
    """Answers one request, or closes the connection over it."""

    def serve() -> None:
        connection, _ = server.accept()
        with connection, connection.makefile("rb") as stream:
            frame = stream.read(int.from_bytes(stream.read(4), "big"))
            header, position = decode_request_header(frame)
            asked.append(codec(OffsetDeleteRequest, 0).decode(frame, position)[0])
            if response is None:
                return
            parts: list[Part] = [header.correlation_id.to_bytes(4, "big")]
            codec(OffsetDeleteResponse, 0).encode(response, parts)
            body = b"".join(part for part in parts if isinstance(part, bytes))
            connection.sendall(len(body).to_bytes(4, "big") + body)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()[1]
        thread.join()


def test_partitions_are_gathered_by_topic() -> None:
    request = request_for("g", [("clicks", 0), ("views", 2), ("clicks", 1)])

    assert [
        (topic.name, [part.partition_index for part in topic.partitions])
        for topic in request.topics
    ] == [("clicks", [0, 1]), ("views", [2])]


def test_what_became_of_each() -> None:
    response = OffsetDeleteResponse(
        topics=[
            OffsetDeleteResponseTopic(
                name="clicks",
                partitions=[
                    OffsetDeleteResponsePartition(partition_index=0),
                    OffsetDeleteResponsePartition(partition_index=1, error_code=86),
                ],
            )
        ]
    )
    partitions = [("clicks", 0), ("clicks", 1)]
    asked: list[OffsetDeleteRequest] = []

    with coordinator(response, asked) as port:
        codes = delete_offsets(PLAIN, "127.0.0.1", port, "g", partitions)

    assert codes == {
        ("clicks", 0): ErrorCode.NONE,
        ("clicks", 1): ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
    }
    assert asked == [request_for("g", partitions)]


def test_an_error_for_all_of_it_is_a_failure() -> None:
    response = OffsetDeleteResponse(error_code=ErrorCode.GROUP_ID_NOT_FOUND)

    with (
        coordinator(response, []) as port,
        pytest.raises(Failure, match="could not delete offsets of 'g': GROUP_ID_NOT_FOUND"),
    ):
        delete_offsets(PLAIN, "127.0.0.1", port, "g", [("clicks", 0)])


def test_a_coordinator_that_goes_away_is_a_failure() -> None:
    with (
        coordinator(None, []) as port,
        pytest.raises(Failure, match=f"coordinator of 'g' at 127.0.0.1:{port} does not answer"),
    ):
        delete_offsets(PLAIN, "127.0.0.1", port, "g", [("clicks", 0)])


def test_what_it_cannot_speak_is_said() -> None:
    cluster = Cluster("localhost:9092", {"security.protocol": "SASL_SSL"})

    with pytest.raises(Failure, match="cannot speak SASL_SSL yet"):
        delete_offsets(cluster, "localhost", 9092, "g", [("clicks", 0)])
