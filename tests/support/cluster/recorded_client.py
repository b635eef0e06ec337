"""A client in a thread of its own that writes into a history what it does and sees."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FuturesTimeout
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from ottla.kernel.ids import TopicPartition
from ottla.testing.history.history import History

TIMEOUT_S = 90

SETTINGS: dict[str, Any] = {
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 200,
    "retry.backoff.ms": 50,
    "retry.backoff.max.ms": 200,
    "topic.metadata.refresh.interval.ms": 2000,
    # Who asks a broker that is paused asks another one after this.
    "socket.timeout.ms": 5000,
    "socket.connection.setup.timeout.ms": 3000,
    "log_level": 0,
}


class Hangs(Exception):
    """A call of librdkafka does not return. `send_offsets_to_transaction` waits for ever, whatever
    its time-out, when the group coordinator is no longer among the brokers of the cluster
    (https://github.com/confluentinc/librdkafka/issues/5511 and 5456, with Apache Kafka as well).
    Whoever called it is left to its fate, as a client that was killed."""


def call_with_time_limit(call: Callable[[], Any], seconds: float) -> Any:
    done: Future[Any] = Future()

    def run() -> None:
        try:
            done.set_result(call())
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    try:
        return done.result(seconds)
    except FuturesTimeout:
        raise Hangs(f"{call} has not returned after {seconds} s") from None


class RecordedClient:
    """Runs from `start` until `stop`. A failure is one of the test, and told by `stop`."""

    def __init__(self, name: str, bootstrap: str, history: History) -> None:
        self.name = name
        self.settings = {**SETTINGS, "bootstrap.servers": bootstrap, "client.id": name}
        self.history = history
        self.failure: BaseException | None = None
        self.progress = 0
        """Grows with all that this client has got done."""
        self.errors: list[str] = []
        """That a user of the client would hear of, though it tries again by itself."""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._guarded, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def is_stopping(self) -> bool:
        return self._stopping.is_set()

    def ask_to_stop(self) -> None:
        self._stopping.set()

    def wait(self, seconds: float) -> None:
        """Until it has ended, well or not, or the time is over."""
        self._thread.join(seconds)

    def join(self) -> None:
        self.wait(3 * TIMEOUT_S)
        assert not self._thread.is_alive(), f"{self.name} hangs"
        if self.failure is not None:
            raise AssertionError(f"{self.name}: {self.failure!r}") from self.failure

    def run(self) -> None:
        """Until `is_stopping`."""
        raise NotImplementedError

    def pause(self, seconds: float) -> None:
        self._stopping.wait(seconds)

    def persist(self, step: Callable[[float], Any]) -> Any:
        """Until it is done: a cluster may be away for longer than one call waits."""
        deadline_s = time.monotonic() + TIMEOUT_S
        while True:
            try:
                return step(5)
            except KafkaException as error:
                if not is_transient(error) or time.monotonic() > deadline_s:
                    raise
                time.sleep(0.05)

    def _guarded(self) -> None:
        try:
            self.run()
        except BaseException as error:
            self.failure = error


_PASSING = frozenset(
    {
        KafkaError._TIMED_OUT,
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._WAIT_COORD,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.NOT_COORDINATOR,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.UNSTABLE_OFFSET_COMMIT,
        KafkaError.NOT_ENOUGH_REPLICAS,
        KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.BROKER_NOT_AVAILABLE,
    }
)


def is_transient(error: KafkaException) -> bool:
    told = error.args[0]
    return bool(told.retriable()) or told.code() in _PASSING


def partition_of(found: Any) -> TopicPartition:
    return TopicPartition(found.topic, found.partition)
