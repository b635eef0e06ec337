"""Acknowledges at once whatever Apache Kafka's producer sends, and keeps nothing of it: what the
producer itself can do.

Prints its port. It ends when its standard input closes.
"""

from __future__ import annotations

import socket
import struct
import sys
import threading

from bench import protocol

TOPIC = "bench-forgetful"
_BUFFER_BYTES = 4 * 1024 * 1024

_PRODUCE, _METADATA, _API_VERSIONS, _INIT_PRODUCER_ID = 0, 3, 18, 22
_INIT_PRODUCER_ID_VERSION = 4
_VERSIONS = {
    _PRODUCE: (protocol.PRODUCE_VERSION, protocol.PRODUCE_VERSION),
    _METADATA: (protocol.METADATA_VERSION, protocol.METADATA_VERSION),
    _API_VERSIONS: (0, 4),
    _INIT_PRODUCER_ID: (_INIT_PRODUCER_ID_VERSION, _INIT_PRODUCER_ID_VERSION),
}
_NO_TAGS = b"\0"


def _bodies(port: int) -> dict[int, bytes]:
    """What follows the correlation id."""
    ranges = [
        struct.pack(">hhh", api_key, *versions) + _NO_TAGS
        for api_key, versions in _VERSIONS.items()
    ]
    # Its header has no tags: the client does not know yet what is understood.
    api_versions = struct.pack(">h", 0) + protocol.compact_array(ranges) + struct.pack(">i", 0)
    broker = struct.pack(">i", 1) + protocol.compact_string("127.0.0.1") + struct.pack(">i", port)
    one = protocol.compact_array([struct.pack(">i", 1)])
    partition = struct.pack(">hiii", 0, 0, 1, 0) + one + one + protocol.compact_array([])
    topic = struct.pack(">h", 0) + protocol.compact_string(TOPIC) + b"\1" * 16 + b"\0"
    topic += protocol.compact_array([partition + _NO_TAGS]) + struct.pack(">i", -1) + _NO_TAGS
    metadata = struct.pack(">i", 0) + protocol.compact_array([broker + b"\0" + _NO_TAGS])
    metadata += protocol.compact_string("bench") + struct.pack(">i", 1)
    metadata += protocol.compact_array([topic])
    init_producer_id = struct.pack(">ihqh", 0, 0, 1, 0)
    return {
        _API_VERSIONS: api_versions + _NO_TAGS,
        _METADATA: _NO_TAGS + metadata + _NO_TAGS,
        _INIT_PRODUCER_ID: _NO_TAGS + init_producer_id + _NO_TAGS,
        _PRODUCE: _NO_TAGS + protocol.produce_answer(TOPIC),
    }


def _serve(connection: socket.socket, bodies: dict[int, bytes]) -> None:
    buffer = memoryview(bytearray(_BUFFER_BYTES))
    with connection:
        while connection.recv_into(buffer[:12], 12, socket.MSG_WAITALL) == 12:
            size, api_key, _, correlation_id = struct.unpack_from(">ihhi", buffer)
            connection.recv_into(buffer, size - 8, socket.MSG_WAITALL)
            body = bodies[api_key]
            connection.sendall(struct.pack(">ii", 4 + len(body), correlation_id) + body)


def main() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    bodies = _bodies(port)

    def accept() -> None:
        while True:
            opened, _ = listener.accept()
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=_serve, args=(opened, bodies), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    print(port, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
