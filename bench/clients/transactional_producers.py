"""Raw producers of transactions version 2, one transaction at a time each, all in one loop.

Arguments: ADDRESS BROKER_PID TOPIC PARTITIONS PRODUCERS RECORDS WARM_UP_S SECONDS
"""

from __future__ import annotations

import json
import select
import sys
import time

from bench.clients.window import Window
from bench.transactional_producer import TransactionalProducer, spread


class Producers:
    """All producers of one run, in one epoll loop."""

    def __init__(self, producers: list[TransactionalProducer]) -> None:
        self._epoll = select.epoll()
        self._producers = {each.socket.fileno(): each for each in producers}
        self._received = {descriptor: bytearray() for descriptor in self._producers}
        for descriptor in self._producers:
            self._epoll.register(descriptor, select.EPOLLIN)
        self._open: set[int] = set()

    @property
    def count(self) -> int:
        return sum(each.count for each in self._producers.values())

    def run(self, seconds: float) -> int:
        """How many transactions were committed. Some are open afterwards."""
        before = self.count
        deadline = time.perf_counter() + seconds
        for descriptor in self._producers.keys() - self._open:
            self._begin(descriptor)
        while time.perf_counter() < deadline:
            for descriptor in self._poll():
                self._begin(descriptor)
        return self.count - before

    def drain(self) -> int:
        """Ends those that are open. Returns how many there were in all."""
        while self._open:
            self._poll()
        return self.count

    def _begin(self, descriptor: int) -> None:
        self._open.add(descriptor)
        producer = self._producers[descriptor]
        producer.socket.sendall(producer.begin())

    def _poll(self) -> list[int]:
        """Takes the answers that are there; whose transactions are done by them?"""
        done: list[int] = []
        for descriptor, _ in self._epoll.poll(60.0, 1024):
            producer, buffer = self._producers[descriptor], self._received[descriptor]
            received = producer.socket.recv(64 * 1024)
            if not received:
                raise SystemExit("the broker closed a connection")
            buffer += received
            if len(buffer) < 4 or len(buffer) < 4 + int.from_bytes(buffer[:4], "big"):
                continue
            frame = producer.answered(bytes(buffer[4:]))
            buffer.clear()
            if frame is not None:
                producer.socket.sendall(frame)
            else:
                self._open.discard(descriptor)
                done.append(descriptor)
        return done


def main() -> None:
    address, pid, topic, partitions, producers, records, warm_up_s, seconds = sys.argv[1:]
    running = Producers(
        [
            TransactionalProducer(
                address,
                f"{topic}-{number}",
                topic,
                spread(int(records), int(partitions), first=number),
            )
            for number in range(int(producers))
        ]
    )
    running.run(float(warm_up_s))
    window = Window(int(pid))
    report = window.close(running.run(float(seconds)))
    report["transactions_in_all"] = running.drain()
    print(json.dumps(report))


if __name__ == "__main__":
    main()
