"""What confluent-kafka's clients give and take, without a cluster."""

from __future__ import annotations

from collections.abc import Callable

from confluent_kafka import KafkaError


class FakeMessage:
    def __init__(self, size_bytes: int = 100, end_of: int | None = None) -> None:
        self._size_bytes = size_bytes
        self.partition = lambda: end_of
        self.error = lambda: None if end_of is None else KafkaError(KafkaError._PARTITION_EOF)
        self.latency = lambda: 0.002

    def __len__(self) -> int:
        return self._size_bytes


class FakeConsumer:
    def __init__(self, messages: list[FakeMessage]) -> None:
        self._messages = messages

    def consume(self, count: int, timeout: float) -> list[FakeMessage]:
        taken, self._messages = self._messages[:count], self._messages[count:]
        return taken


class FakeProducer:
    """Takes three records at a time, and fails every tenth."""

    def __init__(self) -> None:
        self._queued: list[Callable[..., None]] = []
        self._count = 0

    def __len__(self) -> int:
        return len(self._queued)

    def produce(self, topic: str, value: bytes, on_delivery: Callable[..., None]) -> None:
        if len(self._queued) == 3:
            raise BufferError
        self._queued.append(on_delivery)

    def poll(self, timeout: float) -> None:
        for on_delivery in self._queued:
            self._count += 1
            error = KafkaError(KafkaError._MSG_TIMED_OUT) if self._count % 10 == 0 else None
            on_delivery(error, FakeMessage())
        self._queued.clear()
