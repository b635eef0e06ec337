"""Answers produce requests without looking at them: what the load generator itself can do.

Prints its port. One process, one epoll loop, as a broker of one loop would be. It ends when its
standard input closes.
"""

from __future__ import annotations

import select
import socket
import struct
import sys

from bench import protocol
from bench.clients.pipelined_producer import VALUE

TOPIC = "bench-echo"


def answer() -> bytes:
    body = struct.pack(">i", 7) + b"\0" + protocol.produce_answer(TOPIC)
    return struct.pack(">i", len(body)) + body


def main() -> None:
    request_bytes = len(protocol.produce_request(TOPIC, 0, protocol.record_batch(VALUE)))
    answer_bytes = len(answer())
    answers = memoryview(answer() * 1024)
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    print(listener.getsockname()[1], flush=True)
    epoll = select.epoll()
    epoll.register(listener.fileno(), select.EPOLLIN)
    epoll.register(sys.stdin.fileno(), select.EPOLLIN)
    sockets: dict[int, socket.socket] = {}
    rests: dict[int, int] = {}
    buffer = bytearray(64 * 1024)
    while True:
        for descriptor, _ in epoll.poll():
            if descriptor == sys.stdin.fileno():
                return
            if descriptor == listener.fileno():
                opened, _ = listener.accept()
                opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                sockets[opened.fileno()] = opened
                rests[opened.fileno()] = 0
                epoll.register(opened.fileno(), select.EPOLLIN)
                continue
            each = sockets[descriptor]
            received = each.recv_into(buffer)
            if received == 0:
                epoll.unregister(descriptor)
                sockets.pop(descriptor).close()
                continue
            count, rests[descriptor] = divmod(rests[descriptor] + received, request_bytes)
            each.sendall(answers[: count * answer_bytes])


if __name__ == "__main__":
    main()
