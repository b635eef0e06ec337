"""A raw producer of transactions version 2, for the load generators."""

from __future__ import annotations

import socket
import time

from bench import transaction_protocol as protocol
from bench.connection import Connection

VALUE = b"x" * 100
_PATIENCE_S = 60.0
_COMING = (
    protocol.UNKNOWN_TOPIC,
    protocol.NOT_LEADER_OR_FOLLOWER,
    protocol.COORDINATOR_LOADING,
    protocol.NO_COORDINATOR,
    protocol.NOT_COORDINATOR,
    protocol.CONCURRENT_TRANSACTIONS,
)


def spread(record_count: int, partition_count: int, first: int = 0) -> dict[int, int]:
    """Records by partition: as even as it goes, beginning with one of them."""
    counts: dict[int, int] = {}
    for number in range(record_count):
        partition = (first + number) % partition_count
        counts[partition] = counts.get(partition, 0) + 1
    return counts


class TransactionalProducer:
    """One transactional id on one connection: a produce request, an EndTxn, and so on. Made with
    its first transaction done, so that topic and coordinator are there."""

    def __init__(
        self, address: str, transactional_id: str, topic: str, record_counts: dict[int, int]
    ) -> None:
        self._connection = Connection(address)
        self._produce = protocol.ProduceFrame(transactional_id, topic, record_counts, VALUE)
        self._end = protocol.EndFrame(transactional_id)
        self._is_ending = False
        self._producer_id = self._epoch = -1
        self._start(transactional_id)
        self.count = 0
        """Of transactions that were committed."""
        self._first_transaction()

    @property
    def socket(self) -> socket.socket:
        return self._connection.socket

    def receive(self) -> memoryview:
        return self._connection.receive()

    def begin(self) -> bytearray:
        """The first frame of a transaction."""
        return self._produce.of(self._producer_id, self._epoch)

    def answered(self, answer: memoryview | bytes) -> bytearray | None:
        """What to send after this answer; None when the transaction is done. One that follows
        another too quickly is asked to come again."""
        if not self._is_ending:
            code = self._produce.error(answer)
            if code == protocol.CONCURRENT_TRANSACTIONS:
                return self.begin()
            if code != protocol.NONE:
                raise SystemExit(f"produce failed with error code {code}")
            self._is_ending = True
            return self._end.of(self._producer_id, self._epoch)
        code, self._producer_id, self._epoch = protocol.producer(answer)
        if code != protocol.NONE:
            raise SystemExit(f"EndTxn failed with error code {code}")
        self._is_ending = False
        self.count += 1
        return None

    def _start(self, transactional_id: str) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        ask = self._connection.ask
        while time.monotonic() < deadline:
            code = protocol.found_error(ask(protocol.find_coordinator(transactional_id)))
            if code == protocol.NONE:
                answer = ask(protocol.init_producer_id(transactional_id))
                code, self._producer_id, self._epoch = protocol.producer(answer)
            if code == protocol.NONE:
                return
            if code not in _COMING:
                raise SystemExit(f"{transactional_id} has no producer: error code {code}")
            time.sleep(0.02)
        raise SystemExit(f"{transactional_id} has no coordinator")

    def _first_transaction(self) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        answer = self._connection.ask(self.begin())
        # Metadata names the leader of a new partition before that broker has made its log.
        while self._produce.error(answer) in _COMING and time.monotonic() < deadline:
            time.sleep(0.02)
            answer = self._connection.ask(self.begin())
        frame = self.answered(answer)
        while frame is not None:
            frame = self.answered(self._connection.ask(frame))
