"""Producers: a plain idempotent one, and one that writes transactions."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from ottla.kernel.ids import TopicPartition
from ottla.testing.history.events import (
    Acknowledged,
    AskCommit,
    Begin,
    Ended,
    Outcome,
    Send,
    SendUnknown,
    Source,
)
from ottla.testing.history.history import History
from tests.support.cluster.recorded_client import TIMEOUT_S, RecordedClient

_IN_FLIGHT_MAX = 200
_PAUSE_S = 0.005
_COMMIT_SHARE = 0.8


class RecordedProducer(RecordedClient):
    """Idempotent, acks=all. Sends to any of its partitions, one record after another."""

    def __init__(
        self,
        name: str,
        bootstrap: str,
        history: History,
        partitions: Sequence[TopicPartition],
        seed: int,
    ) -> None:
        super().__init__(name, bootstrap, history)
        self._partitions = partitions
        self._random = random.Random(seed)
        self._number = 0
        self._acknowledged: Counter[int] = Counter()
        """By partition: progress is that of the slowest."""
        self._producer = Producer(
            {
                **self.settings,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 2,
                "message.timeout.ms": TIMEOUT_S * 1000,
                "request.timeout.ms": 5000,
            }
        )

    def run(self) -> None:
        while not self.is_stopping:
            self._number += 1
            self._send(self._random.choice(self._partitions), f"{self.name} {self._number}")
            while len(self._producer) > _IN_FLIGHT_MAX and not self.is_stopping:
                self._producer.poll(0.05)
            self._producer.poll(0)
            self.pause(_PAUSE_S)
        left = self._producer.flush(2 * TIMEOUT_S)
        assert left == 0, f"{left} records were not answered"

    def _send(self, partition: TopicPartition, value: str) -> None:
        self.history.add(Send(self.name, value, partition))
        self._producer.produce(
            partition.topic,
            value.encode(),
            partition=partition.partition,
            on_delivery=self._delivered(value),
        )

    def _delivered(self, value: str) -> Callable[[KafkaError | None, Message], None]:
        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                self.errors.append(f"{value}: {error}")
                self.history.add(SendUnknown(self.name, value))
                return
            self._acknowledged[message.partition() or 0] += 1
            self.progress = min(self._acknowledged[one.partition] for one in self._partitions)
            self.history.add(Acknowledged(self.name, value, offset_of(message)))

        return delivered


def offset_of(message: Message) -> int | None:
    offset = message.offset()
    return offset if offset is not None and offset >= 0 else None


class TransactionalClient(RecordedClient):
    """Whatever writes in transactions. It knows of each what became of it."""

    def __init__(self, name: str, bootstrap: str, history: History, seed: int) -> None:
        super().__init__(name, bootstrap, history)
        self.random = random.Random(seed)
        self.producer: Producer | None = None
        self._transaction = ""
        self._number = 0
        self._is_commit_asked = False

    def init_producer(self) -> None:
        """Whatever was open before is ended then."""
        self.producer = Producer(
            {
                **self.settings,
                "transactional.id": self.name,
                "transaction.timeout.ms": 60_000,
                "linger.ms": 1,
                "request.timeout.ms": 5000,
            }
        )
        self.persist(self.producer.init_transactions)

    def begin(self) -> str:
        assert self.producer is not None
        self._number += 1
        self._transaction = f"{self.name}#{self._number}"
        self._is_commit_asked = False
        self.history.add(Begin(self.name, self._transaction))
        self.producer.begin_transaction()
        return self._transaction

    def send(self, partition: TopicPartition, value: str, source: Source | None = None) -> None:
        assert self.producer is not None
        self.history.add(Send(self.name, value, partition, self._transaction, source))
        self.producer.produce(
            partition.topic,
            value.encode(),
            partition=partition.partition,
            on_delivery=self._delivered(value),
        )

    def end(self, *, is_commit: bool) -> bool:
        """Whether it was committed. Raises KafkaException, for `recover`."""
        assert self.producer is not None
        if is_commit:
            self._is_commit_asked = True
            self.history.add(AskCommit(self.name, self._transaction))
            self.persist(self.producer.commit_transaction)
            self._ended(Outcome.COMMITTED)
            self.progress += 1
        else:
            self.producer.flush(TIMEOUT_S)
            self.persist(self.producer.abort_transaction)
            self._ended(Outcome.ABORTED)
        return is_commit

    def recover(self, error: KafkaException) -> None:
        """After any of the steps above has failed: the transaction is over, one way or another,
        and the producer ready for the next."""
        assert self.producer is not None
        self.errors.append(f"{self._transaction}: {error}")
        told = error.args[0]
        if told.txn_requires_abort() and not told.fatal():
            try:
                self.persist(self.producer.abort_transaction)
            except KafkaException as second:
                if not second.args[0].fatal():
                    raise
            else:
                self._ended(Outcome.ABORTED)
                return
        elif not told.fatal():
            raise error
        self.producer.purge()
        self.producer.flush(0)
        self.replace_producer()

    def replace_producer(self) -> None:
        """By one that fences it: it is of no more use."""
        self._ended(Outcome.UNKNOWN if self._is_commit_asked else Outcome.ABORTED)
        self.init_producer()

    def _ended(self, outcome: Outcome) -> None:
        self.history.add(Ended(self.name, self._transaction, outcome))

    def _delivered(self, value: str) -> Callable[[KafkaError | None, Message], None]:
        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                self.history.add(SendUnknown(self.name, value))
            else:
                self.history.add(Acknowledged(self.name, value, offset_of(message)))

        return delivered


class TransactionalWriter(TransactionalClient):
    """Writes to several partitions at once, and aborts some of it."""

    def __init__(
        self,
        name: str,
        bootstrap: str,
        history: History,
        partitions: Sequence[TopicPartition],
        seed: int,
    ) -> None:
        super().__init__(name, bootstrap, history, seed)
        self._partitions = partitions

    def run(self) -> None:
        self.init_producer()
        while not self.is_stopping:
            try:
                name = self.begin()
                for number in range(self.random.randrange(1, 6)):
                    self.send(self.random.choice(self._partitions), f"{name}.{number}")
                self.end(is_commit=self.random.random() < _COMMIT_SHARE)
            except KafkaException as error:
                self.recover(error)
            self.pause(_PAUSE_S)
