"""The controller's requests on their way to the brokers: one ordered queue for each.

A broker gets what concerns it in the order in which the controller decided it, one request after
another, each until it is answered: it must not miss one. A broker that cannot be reached is tried
again until its registration goes, or is another one. A request may then arrive twice, and the first
one late, over the connection that was given up: each has a number, and a broker takes none that is
lower than one it has taken. The controller's own broker is served by the
same queue, over a "connection" that is a plain call (`OwnBroker`).
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple, Protocol, TypeVar

from ottla.controller.controller_context import LiveBroker
from ottla.controller.request_batch import Request
from ottla.kernel.errors import KafkaError
from ottla.kernel.ids import BrokerId
from ottla.wire.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from ottla.wire.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from ottla.wire.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from ottla.wire.schema import Request as AnyRequest
from ottla.wire.schema import Response as AnyResponse

log = logging.getLogger(__name__)

R = TypeVar("R", bound=AnyResponse)

Response = LeaderAndIsrResponse | UpdateMetadataResponse | StopReplicaResponse

_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 1.0


class _Kind(NamedTuple):
    response_class: type[Response]
    version: int
    """The newest of Kafka 3.9, the last that had these requests."""


_KINDS: dict[type[Request], _Kind] = {
    LeaderAndIsrRequest: _Kind(LeaderAndIsrResponse, 7),
    UpdateMetadataRequest: _Kind(UpdateMetadataResponse, 8),
    StopReplicaRequest: _Kind(StopReplicaResponse, 4),
}


class BrokerConnection(Protocol):
    async def call(self, request: AnyRequest, response_class: type[R], version: int) -> R:
        """Raises ConnectionError or KafkaError where there is no answer."""
        ...

    def close(self) -> None: ...


Connect = Callable[[LiveBroker], Awaitable[BrokerConnection]]
"""Raises OSError or KafkaError while the broker cannot be reached."""

OnResponse = Callable[[LiveBroker, Request, Response], None]


class StateChanges(Protocol):
    """How a broker takes the controller's requests."""

    async def leader_and_isr(self, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse: ...

    async def update_metadata(self, request: UpdateMetadataRequest) -> UpdateMetadataResponse: ...

    async def stop_replica(self, request: StopReplicaRequest) -> StopReplicaResponse: ...


class OwnBroker:
    """The controller's own broker, as if it were at the other end of a connection."""

    def __init__(self, state_changes: StateChanges) -> None:
        self._state_changes = state_changes

    async def call(self, request: AnyRequest, response_class: type[R], version: int) -> R:
        response: Response
        match request:
            case LeaderAndIsrRequest():
                response = await self._state_changes.leader_and_isr(request)
            case UpdateMetadataRequest():
                response = await self._state_changes.update_metadata(request)
            case _:
                assert isinstance(request, StopReplicaRequest), f"no request to a broker: {request}"
                response = await self._state_changes.stop_replica(request)
        assert isinstance(response, response_class)
        return response

    def close(self) -> None:
        pass


class ChannelManager:
    """Owned by a controller, for one controller epoch. What waits in it when the controller dies is
    lost; its successor tells every broker everything."""

    def __init__(self, connect: Connect, on_response: OnResponse, *, timeout_s: float) -> None:
        self._connect = connect
        self._on_response = on_response
        self._timeout_s = timeout_s
        self._channels: dict[BrokerId, _Channel] = {}
        self._sequences = itertools.count()
        self._is_closed = False

    def set_brokers(self, brokers: Iterable[LiveBroker]) -> None:
        """Those that are alive now. What waits for one that is gone, or was registered anew, is
        dropped."""
        if self._is_closed:
            return
        alive = {broker.id: broker for broker in brokers}
        for broker_id, channel in list(self._channels.items()):
            if alive.get(broker_id) != channel.broker:
                self._channels.pop(broker_id).close()
        for broker in alive.values():
            if broker.id not in self._channels:
                self._channels[broker.id] = _Channel(
                    broker, self._connect, self._on_response, self._timeout_s
                )

    def send(self, broker_id: BrokerId, requests: Iterable[Request]) -> None:
        """To one that is alive. After the end of its epoch a controller tells nobody anything: an
        event may be under way when that comes."""
        if self._is_closed:
            return
        channel = self._channels[broker_id]
        for request in requests:
            request.sequence = next(self._sequences)
            channel.put(request)

    async def delivered(self, broker_id: BrokerId) -> None:
        """Waits until the broker has answered all that was sent to it so far, or is gone."""
        channel = self._channels.get(broker_id)
        if channel is not None:
            await channel.delivered()

    def close(self) -> None:
        self._is_closed = True
        for channel in self._channels.values():
            channel.close()
        self._channels.clear()


class _Channel:
    """To one broker, while it has one registration."""

    def __init__(
        self, broker: LiveBroker, connect: Connect, on_response: OnResponse, timeout_s: float
    ) -> None:
        self.broker = broker
        self._connect = connect
        self._on_response = on_response
        self._timeout_s = timeout_s
        self._waiting: deque[Request | asyncio.Future[None]] = deque()
        self._has_more = asyncio.Event()
        self._connection: BrokerConnection | None = None
        self._task = asyncio.get_running_loop().create_task(self._deliver_all())

    def put(self, request: Request | asyncio.Future[None]) -> None:
        self._waiting.append(request)
        self._has_more.set()

    async def delivered(self) -> None:
        if self._task.done():
            return
        reached: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.put(reached)
        await reached

    def close(self) -> None:
        self._task.cancel()
        self._disconnect()
        for each in self._waiting:
            if isinstance(each, asyncio.Future) and not each.done():
                each.set_result(None)
        self._waiting.clear()

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    async def _deliver_all(self) -> None:
        while True:
            while not self._waiting:
                self._has_more.clear()
                await self._has_more.wait()
            request = self._waiting[0]
            if isinstance(request, asyncio.Future):
                if not request.done():
                    request.set_result(None)
            else:
                self._on_response(self.broker, request, await self._deliver(request))
            self._waiting.popleft()

    async def _deliver(self, request: Request) -> Response:
        kind = _KINDS[type(request)]
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                async with asyncio.timeout(self._timeout_s):
                    if self._connection is None:
                        self._connection = await self._connect(self.broker)
                    return await self._connection.call(request, kind.response_class, kind.version)
            except (OSError, KafkaError) as error:  # a time-out among them
                log.warning(
                    "broker %d has not answered %s, trying again: %s",
                    self.broker.id,
                    type(request).__name__,
                    str(error) or "time-out",
                )
            except Exception:
                # A bug, here or in our own broker. Others must not be told what this one was not.
                log.exception("%s to broker %d failed", type(request).__name__, self.broker.id)
            self._disconnect()
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
