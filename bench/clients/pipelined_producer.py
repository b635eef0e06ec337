"""One-record produce requests, several in flight on each of many connections.

The frames are built before; in the loop there is one receive and one send for all answers that
came together. All answers have one length, so counting bytes counts answers.
Arguments: ADDRESS BROKER_PID TOPIC CONNECTIONS IN_FLIGHT WARM_UP_S SECONDS
"""

from __future__ import annotations

import json
import select
import sys
import time

from bench import protocol
from bench.clients.window import Window
from bench.connection import Connection

VALUE = b"x" * 100
_NEW_LEADER_PATIENCE_S = 30.0


def first_answer_bytes(connection: Connection, frame: bytes) -> int:
    """Length of an answer with its length field, after checking that it is a success."""
    deadline = time.monotonic() + _NEW_LEADER_PATIENCE_S
    while True:
        answer = connection.ask(frame)
        error_code = protocol.produce_error(answer)
        if error_code == 0:
            return len(answer) + 4
        # Metadata names the leader of a new partition before that broker has made its log.
        if error_code != protocol.NOT_LEADER_OR_FOLLOWER or time.monotonic() > deadline:
            raise SystemExit(f"produce failed with error code {error_code}")
        time.sleep(0.05)


class Pipeline:
    """All connections of one run, in one epoll loop."""

    def __init__(self, address: str, topic: str, connection_count: int, in_flight: int) -> None:
        frame = protocol.produce_request(topic, 0, protocol.record_batch(VALUE))
        self._frame_bytes = len(frame)
        self._burst = memoryview(frame * in_flight)
        self._in_flight = in_flight
        self._connections = [Connection(address) for _ in range(connection_count)]
        sizes = {first_answer_bytes(each, frame) for each in self._connections}
        if len(sizes) != 1:
            raise SystemExit(f"answers of several lengths: {sorted(sizes)}")
        self._answer_bytes = sizes.pop()
        self.count = connection_count

    def begin(self) -> None:
        self._epoll = select.epoll()
        self._sockets = {each.socket.fileno(): each.socket for each in self._connections}
        for descriptor, each in self._sockets.items():
            self._epoll.register(descriptor, select.EPOLLIN)
            each.sendall(self._burst)
        self._rest_bytes = dict.fromkeys(self._sockets, 0)
        self._open_answers = len(self._connections) * self._in_flight

    def drain(self) -> int:
        """Takes the answers that are still open. Returns how many there were in all."""
        before = self.count
        self.run(10.0, refill=False)
        if self.count - before != self._open_answers:
            raise SystemExit(f"{self._open_answers - self.count + before} answers never came")
        return self.count

    def run(self, seconds: float, *, refill: bool = True) -> int:
        """How many answers came. Without `refill` it ends as soon as all are answered."""
        deadline = time.perf_counter() + seconds
        buffer = bytearray(256 * 1024)
        sockets, rests = self._sockets, self._rest_bytes
        answer_bytes, frame_bytes, burst = self._answer_bytes, self._frame_bytes, self._burst
        poll = self._epoll.poll
        count = 0
        while (refill or count < self._open_answers) and time.perf_counter() < deadline:
            for descriptor, _ in poll(1.0, 1024):
                each = sockets[descriptor]
                received = each.recv_into(buffer)
                if received == 0:
                    raise SystemExit("the broker closed a connection")
                answers, rests[descriptor] = divmod(rests[descriptor] + received, answer_bytes)
                count += answers
                if refill and answers:
                    each.sendall(burst[: answers * frame_bytes])
        self.count += count
        return count


def main() -> None:
    address, pid, topic, connections, in_flight, warm_up_s, seconds = sys.argv[1:]
    pipeline = Pipeline(address, topic, int(connections), int(in_flight))
    pipeline.begin()
    pipeline.run(float(warm_up_s))
    window = Window(int(pid))
    count = pipeline.run(float(seconds))
    report = window.close(count)
    report["answers_in_all"] = pipeline.drain()
    print(json.dumps(report))


if __name__ == "__main__":
    main()
