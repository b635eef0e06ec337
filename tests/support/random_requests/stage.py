"""One of the two brokers in one sequence: what was made there, and the ids that it gave out."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import NO_TOPIC_ID, TopicId
from ottla.wire.api import APIS, ApiKey
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.schema import Request, Struct
from tests.support.raw_client import ConnectionClosed, RawClient
from tests.support.side_by_side import Subject, settle

T = TypeVar("T")
S = TypeVar("S", bound=Struct)

UNANSWERED = "no answer"
CLOSED = "the broker closed the connection"

TIMEOUT_S = 30
_PASSING = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
)

UNKNOWN_ID = TopicId(bytes(range(16)))


class Stage:
    """Lives as long as its sequence. Both brokers have one, with the same names in it, and both go
    through the same steps with the same random numbers: a step picks by `rng`, never by what only
    one of the brokers knows."""

    def __init__(self, subject: Subject, prefix: str) -> None:
        self.subject = subject
        self.prefix = prefix
        self.rng = random.Random()
        self.asked = ""
        """The last request, as a person would like to read it."""
        self.names: dict[object, str] = {}
        """The broker's own ids, by what is the same at both."""
        self.topic_ids: dict[str, TopicId] = {}
        """Also of topics that are gone."""
        self.existing: set[str] = set()
        self._clients: dict[str, RawClient] = {}

    def close(self) -> None:
        for client in self._clients.values():
            client.close()

    # -- random numbers ---------------------------------------------------------------------

    def pick(self, *choices: T) -> T:
        return self.rng.choice(choices)

    def mostly(self, usual: T, *others: T, share: float = 0.85) -> T:
        return usual if self.rng.random() < share else self.rng.choice(others)

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def some(self, choices: Sequence[T], most: int = 3) -> list[T]:
        count = self.rng.randint(1, min(most, len(choices)))
        return self.rng.sample(list(choices), count)

    def version(self, request: type[Request], *, at_least: int = 0, at_most: int = 99) -> int:
        api = APIS[ApiKey(request.API_KEY)]
        known = set(api.versions) & set(api.advertised_versions)
        return self.rng.choice([one for one in sorted(known) if at_least <= one <= at_most])

    # -- requests ---------------------------------------------------------------------------

    def ask(self, request: Request, version: int) -> Any:
        """The answer, or CLOSED; then the next request finds a new connection."""
        self.asked = f"v{version} {written(request)}"
        return self.or_closed(lambda: self._until_ready(request, version))

    def _until_ready(self, request: Request, version: int) -> Any:
        """Again while the coordinator is not up yet, or a transaction is being ended: clients do
        the same, and how often they have to is a matter of time."""
        deadline_s = time.monotonic() + TIMEOUT_S
        while True:
            answer = self.subject.ask(request, version)
            codes = {code for code in _codes(answer) if code in _PASSING}
            if not codes:
                return answer
            assert time.monotonic() < deadline_s, f"still {codes}: {self.asked}"
            time.sleep(0.01)

    def or_closed(self, ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except (ConnectionClosed, ConnectionError):
            self.subject.reconnect()
            return CLOSED
        except TimeoutError:
            self.subject.reconnect()
            return UNANSWERED

    def pass_first_producer_id(self) -> None:
        """It is 0, which also stands for none."""
        request = InitProducerIdRequest(transactional_id=None)
        self._until_ready(request, 4)

    def client(self, name: str) -> RawClient:
        """A connection of its own, for somebody who may have to wait for an answer."""
        if name not in self._clients:
            self._clients[name] = RawClient(self.subject.bootstrap)
        return self._clients[name]

    # -- topics -----------------------------------------------------------------------------

    def topic(self, name: str) -> str:
        return f"{self.prefix}-{name}"

    def topic_id(self, topic: str) -> TopicId:
        return self.topic_ids.get(topic, UNKNOWN_ID)

    def create(self, name: str, partition_count: int = 1, **configs: str) -> str:
        """Setting names with underscores for dots."""
        topic = self.topic(name)
        self.subject.create(topic, partition_count, **configs)
        self.know_topic(topic, self.subject.topic_ids[topic])
        return topic

    def know_topic(self, topic: str, topic_id: TopicId) -> None:
        self.topic_ids[topic] = topic_id
        self.names[bytes(topic_id)] = f"id of {topic}"

    def settle(self, topics: Sequence[str] = ()) -> None:
        """Until what was changed holds: Apache Kafka answers before its broker knows of it."""
        settle(self.subject.client)
        for topic in topics:
            self._wait_for(topic)

    def _wait_for(self, topic: str) -> None:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
        request.allow_auto_topic_creation = False
        found = self.subject.ask(request, 12).topics[0]
        self.existing.discard(topic)
        if found.error_code == ErrorCode.NONE:
            self.existing.add(topic)
            if found.topic_id != NO_TOPIC_ID:
                self.know_topic(topic, found.topic_id)
            self.subject.topic_ids[topic] = found.topic_id
            self.subject.wait_until_led(topic)


def fitting(kind: type[S], version: int, **values: Any) -> S:
    """A struct with those of the values that this version has."""
    known = {field.name for field in kind.FIELDS if version in field.versions}
    return kind(**{name: value for name, value in values.items() if name in known})


def _codes(value: Any) -> Iterator[int]:
    """All error codes of an answer."""
    if isinstance(value, list):
        for element in value:
            yield from _codes(element)
    elif isinstance(value, Struct):
        for field in value.FIELDS:
            found = getattr(value, field.name)
            if field.name.endswith("error_code"):
                yield found
            else:
                yield from _codes(found)


def written(value: Any) -> str:
    """A request as a person would like to read it: without what has its default."""
    if isinstance(value, list):
        return f"[{', '.join(map(written, value))}]"
    if isinstance(value, memoryview):
        return f"{len(value)} bytes"
    if not isinstance(value, Struct):
        return repr(value)
    fields = (
        f"{field.name}={written(getattr(value, field.name))}"
        for field in value.FIELDS
        if getattr(value, field.name) != field.default
    )
    return f"{type(value).__name__}({', '.join(fields)})"
