"""What every simulated client does: finds leaders and coordinators, asks, gives up, asks again."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

from ottla.client.connection import ClientConnection
from ottla.kernel.eager import begin
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import TopicPartition
from ottla.kernel.transport import Network
from ottla.testing.history.events import LeaderSeen
from ottla.testing.history.history import History
from ottla.wire.api import APIS, ApiKey
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.wire.schema import Request, Response

R = TypeVar("R", bound=Response)
T = TypeVar("T")

GROUP, TRANSACTION = 0, 1
"""Kinds of coordinators."""

REQUEST_TIMEOUT_S = 2.0
_PAUSE_S_MAX = 0.1


class Refused(Exception):
    """A broker has answered with an error."""

    def __init__(self, code: int) -> None:
        self.code = ErrorCode(code)
        super().__init__(self.code.name)


def check(code: int) -> None:
    if code:
        raise Refused(code)


def _retrieve(call: asyncio.Task[R]) -> None:
    """Whoever waited may be gone."""
    if not call.cancelled():
        call.exception()


def _answer(call: asyncio.Task[R], failure: OSError) -> R | OSError:
    if not call.done() or call.cancelled():
        return failure
    error = call.exception()
    if error is None:
        return call.result()
    return error if isinstance(error, OSError) else failure


class SimulatedClient:
    """On a host of its own, with one connection to each broker. Its user tells the history what
    came of it."""

    def __init__(
        self,
        name: str,
        network: Network,
        addresses: Mapping[int, tuple[str, int]],
        rng: random.Random,
        history: History,
    ) -> None:
        self.name = name
        self.history = history
        self.rng = rng
        self.is_stopping = False
        self.note: Callable[[str], None] = lambda what: None
        """What becomes of its attempts, for a trace."""
        self._network = network
        self._addresses = addresses
        self._connections: dict[int, ClientConnection] = {}
        self._leaders: dict[TopicPartition, int] = {}
        self.leader_epochs: dict[TopicPartition, int] = {}
        """The highest that it was told."""
        self._coordinators: dict[tuple[int, str], int] = {}

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    async def ask(
        self, broker_id: int, request: Request, response_class: type[R], version: int | None = None
    ) -> R:
        """Raises OSError, TimeoutError among them: then the connection is another one the next
        time, as with every Kafka client."""
        if version is None:
            version = APIS[ApiKey(request.API_KEY)].advertised_versions[-1]
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                connection = await self._connect(broker_id)
                return await connection.call(request, response_class, version)
        except OSError:
            self._disconnect(broker_id)
            raise

    async def ask_in_a_row(
        self, broker_id: int, requests: Sequence[Request], response_class: type[R], version: int
    ) -> list[R | OSError]:
        """On one connection, none of them waiting for the answer to the one before."""
        calls: list[asyncio.Task[R]] = []
        failure: OSError = TimeoutError()
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                connection = await self._connect(broker_id)
                for request in requests:
                    call = begin(connection.call(request, response_class, version))
                    assert isinstance(call, asyncio.Task), "an answer takes time"
                    call.add_done_callback(_retrieve)
                    calls.append(call)
                await asyncio.wait(calls)
        except OSError as error:
            failure = error
        answers = [_answer(call, failure) for call in calls]
        answers += [failure] * (len(requests) - len(calls))
        if any(isinstance(answer, OSError) for answer in answers):
            self._disconnect(broker_id)
        return answers

    async def _connect(self, broker_id: int) -> ClientConnection:
        connection = self._connections.get(broker_id)
        if connection is None or connection.is_lost:
            host, port = self._addresses[broker_id]
            connection = await ClientConnection.open(self._network, host, port, client_id=self.name)
            self._connections[broker_id] = connection
        return connection

    def _disconnect(self, broker_id: int) -> None:
        connection = self._connections.pop(broker_id, None)
        if connection is not None:
            connection.close()

    async def ask_any(self, request: Request, response_class: type[R]) -> R:
        broker_id = self.rng.choice(sorted(self._addresses))
        return await self.ask(broker_id, request, response_class)

    async def metadata(self, *topics: str) -> MetadataResponse:
        wanted = [MetadataRequestTopic(name=name) for name in topics]
        return await self.ask_any(
            MetadataRequest(topics=wanted, allow_auto_topic_creation=False), MetadataResponse
        )

    async def partition_count(self, topic: str) -> int:
        answer = await self.metadata(topic)
        check(answer.topics[0].error_code)
        return len(answer.topics[0].partitions)

    async def leader_of(self, partition: TopicPartition) -> int:
        """As it was last told; `forget` has it ask again."""
        if partition not in self._leaders:
            answer = await self.metadata(partition.topic)
            check(answer.topics[0].error_code)
            for each in answer.topics[0].partitions:
                key = TopicPartition(partition.topic, each.partition_index)
                # Whoever was told of a leader does not go back to the one before (KIP-320).
                is_old = each.leader_epoch < self.leader_epochs.get(key, 0)
                if each.leader_id != -1 and not each.error_code and not is_old:
                    self._leaders[key] = each.leader_id
                    self.leader_epochs[key] = each.leader_epoch
                    self.history.add(LeaderSeen(self.name, key, each.leader_id, each.leader_epoch))
        if partition not in self._leaders:
            raise Refused(ErrorCode.LEADER_NOT_AVAILABLE)
        return self._leaders[partition]

    def forget_leader(self, partition: TopicPartition) -> None:
        self._leaders.pop(partition, None)

    async def ask_coordinator(
        self,
        kind: int,
        key: str,
        request: Request,
        response_class: type[R],
        version: int | None = None,
    ) -> R:
        if (kind, key) not in self._coordinators:
            answer = await self.ask_any(
                FindCoordinatorRequest(key_type=kind, coordinator_keys=[key]),
                FindCoordinatorResponse,
            )
            (found,) = answer.coordinators
            check(found.error_code)
            self._coordinators[kind, key] = found.node_id
        return await self.ask(self._coordinators[kind, key], request, response_class, version)

    def known_coordinator(self, kind: int, key: str) -> int | None:
        return self._coordinators.get((kind, key))

    def forget_coordinators(self) -> None:
        self._coordinators.clear()

    async def insist(
        self, attempt: Callable[[], Awaitable[T]], *, gives_up_on: frozenset[ErrorCode]
    ) -> T:
        """Until it succeeds, or is refused for good. Whoever was asked may be another by then."""
        while True:
            try:
                return await attempt()
            except OSError as error:
                problem = type(error).__name__
            except Refused as refused:
                if refused.code in gives_up_on:
                    raise
                problem = refused.code.name
            self.note(f"tries again after {problem}")
            self._leaders.clear()
            self.forget_coordinators()
            await self.pause()

    async def pause(self) -> None:
        await asyncio.sleep(self.rng.uniform(0, _PAUSE_S_MAX))
