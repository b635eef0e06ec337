"""Connections to the other brokers of the cluster, by their ids.

A broker answers the requests of a connection in their order, so one that waits (markers wait for
followers, the creation of topics for all of their leaders) holds up those behind it. Therefore what
a broker asks for has a *purpose*, and each purpose a connection of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from ottla.kernel.clock import Clock
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import BrokerId
from ottla.kernel.transport import Network
from ottla.metadata.image import BrokerImage, BrokersChanged, Change, ClusterImage
from ottla.wire.api import ApiKey
from ottla.wire.schema import Request, Response

if TYPE_CHECKING:
    from ottla.client.connection import ClientConnection
    from ottla.client.versions import Versions

T = TypeVar("T")
R = TypeVar("R", bound=Response)

IN_FLIGHT_MAX = 64
"""Requests on one connection. A broker reads no more than that before it has answered."""

_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 1.0


class PeerConnection:
    """One connection to one broker, and what that broker speaks. Owned by whoever opened it."""

    def __init__(self, connection: ClientConnection, versions: Versions) -> None:
        self._connection = connection
        self._versions = versions

    @property
    def is_lost(self) -> bool:
        return self._connection.is_lost

    def version_of(self, key: ApiKey) -> int:
        """The newest that both know. Raises KafkaError."""
        from ottla.client.versions import newest_common

        return newest_common(key, self._versions)

    async def call(
        self, request: Request, response_class: type[R], version: int | None = None
    ) -> R:
        """In this version, or in the newest that both know. Raises ConnectionError, and KafkaError
        where the broker does not know the API, or no version of it that can say what the request
        does."""
        key = ApiKey(request.API_KEY)
        try:
            return await self._connection.call(
                request, response_class, self.version_of(key) if version is None else version
            )
        except ValueError as error:  # a field that this version lacks and must not lose
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"{key.name}: {error}") from error

    def close(self) -> None:
        self._connection.close()


class Peers:
    """Owned by the broker. Nothing of it outlives a crash.

    A connection is opened with the first request, and again when it was lost. It is closed when the
    broker goes, or comes back in another epoch: what is behind its address may be another process
    by then. What waits for an answer then hears of it at once."""

    def __init__(
        self,
        own_id: BrokerId,
        image: ClusterImage,
        network: Network,
        *,
        clock: Clock,
        listener_name: str,
        request_timeout_ms: int,
    ) -> None:
        self._own_id = own_id
        self._image = image
        self._network = network
        self._clock = clock
        self._listener_name = listener_name
        self._timeout_s = request_timeout_ms / 1000
        self._channels: dict[tuple[BrokerId, str], _Channel] = {}
        self._is_closed = False
        image.on_change(self._image_changed)

    async def ask(
        self,
        broker_id: BrokerId,
        request: Request,
        response_class: type[R],
        *,
        purpose: str,
        version: int | None = None,
    ) -> R:
        """In this version, which an API that is listed nowhere needs, or in the newest that both
        know. Raises KafkaError: BROKER_NOT_AVAILABLE where no such broker is alive,
        NETWORK_EXCEPTION where it cannot be reached or the connection was lost, REQUEST_TIMED_OUT
        after `request.timeout.ms`. In the last two cases it may have done what it was asked
        for."""
        channel = self._channel(broker_id, purpose)
        return await self._in_time(
            channel.ask(request, response_class, version),
            lambda: f"Broker {broker_id} has not answered {ApiKey(request.API_KEY).name}",
            on_late=channel.close,  # Whatever comes after it would wait behind it.
        )

    async def open(self, broker_id: BrokerId, client_id: str) -> PeerConnection:
        """A connection for one who keeps it, asks in its own order, and closes it. Raises
        KafkaError as `ask` does."""
        return await self.open_to(self._broker(broker_id), client_id)

    async def open_to(self, broker: BrokerImage, client_id: str) -> PeerConnection:
        """As `open`, to a broker of which the picture may not know yet."""
        return await self._in_time(
            self._open(broker, client_id),
            lambda: f"Broker {broker.id} could not be connected to",
        )

    def close(self) -> None:
        self._is_closed = True
        for channel in self._channels.values():
            channel.close()
        self._channels.clear()

    def _broker(self, broker_id: BrokerId) -> BrokerImage:
        assert broker_id != self._own_id, "a broker asks itself by a plain call"
        broker = None if self._is_closed else self._image.brokers.get(broker_id)
        if broker is None:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"Broker {broker_id} is not alive.")
        return broker

    def _channel(self, broker_id: BrokerId, purpose: str) -> _Channel:
        channel = self._channels.get((broker_id, purpose))
        if channel is None:
            broker = self._broker(broker_id)

            async def open_it() -> PeerConnection:
                return await self.open_to(broker, f"broker-{self._own_id}-{purpose}")

            channel = self._channels[broker_id, purpose] = _Channel(broker, open_it, self._clock)
        return channel

    async def _open(self, broker: BrokerImage, client_id: str) -> PeerConnection:
        # A broker that is alone in its cluster is not to pay for a client.
        from ottla.client.connection import ClientConnection
        from ottla.client.versions import listed_versions
        from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

        endpoint = broker.endpoints.get(self._listener_name)
        if endpoint is None:
            raise KafkaError(
                ErrorCode.BROKER_NOT_AVAILABLE,
                f"Broker {broker.id} has no listener {self._listener_name!r}, which "
                "inter.broker.listener.name asks for on this one.",
            )
        connection = None
        try:
            connection = await ClientConnection.open(
                self._network, endpoint.host, endpoint.port, client_id=client_id
            )
            # Version 0: there is no broker that would not understand it.
            response = await connection.call(ApiVersionsRequest(), ApiVersionsResponse, 0)
        except BaseException as error:
            if connection is not None:
                connection.close()
            if isinstance(error, OSError):
                raise _unreachable(broker.id, error) from error
            raise
        return PeerConnection(connection, listed_versions(response))

    async def _in_time(
        self,
        work: Coroutine[Any, Any, T],
        what: Callable[[], str],
        *,
        on_late: Callable[[], None] = lambda: None,
    ) -> T:
        # Not asyncio.timeout: requests begin without a task (`kernel/eager.py`).
        task = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(_take_note)
        try:
            await asyncio.wait([task], timeout=self._timeout_s)
            if task.done():
                return task.result()
            on_late()
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"{what()} within {self._timeout_s:g} s.")
        finally:
            task.cancel()

    def _image_changed(self, change: Change) -> None:
        if isinstance(change, BrokersChanged):
            for key, channel in list(self._channels.items()):
                if change.brokers.get(key[0]) != channel.broker:
                    self._channels.pop(key).close()


def _take_note(task: asyncio.Task[T]) -> None:
    """One that is too late may fail of something else than of being cancelled, and nobody asks."""
    if not task.cancelled():
        task.exception()


class _Channel:
    """To one broker, for one purpose, while the broker has one registration."""

    def __init__(
        self,
        broker: BrokerImage,
        open_it: Callable[[], Coroutine[Any, Any, PeerConnection]],
        clock: Clock,
    ) -> None:
        self.broker = broker
        self._open_it = open_it
        self._clock = clock
        self._connection: PeerConnection | None = None
        self._opening: asyncio.Task[PeerConnection] | None = None
        self._in_flight = asyncio.Semaphore(IN_FLIGHT_MAX)
        self._pause_s = 0.0
        self._paused_until_s = 0.0
        self._failure: KafkaError | None = None

    async def ask(self, request: Request, response_class: type[R], version: int | None) -> R:
        async with self._in_flight:
            connection = await self._opened()
            try:
                return await connection.call(request, response_class, version)
            except ConnectionError as error:
                raise _unreachable(self.broker.id, error) from error

    def close(self) -> None:
        """What is asked next opens another one."""
        if self._opening is not None:
            self._opening.cancel()
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    async def _opened(self) -> PeerConnection:
        if self._connection is not None and not self._connection.is_lost:
            return self._connection
        opening = self._opening
        if opening is None:
            if self._failure is not None and self._clock.monotonic_s() < self._paused_until_s:
                raise KafkaError(self._failure.code, self._failure.message)
            opening = self._opening = asyncio.get_running_loop().create_task(self._open_it())
            opening.add_done_callback(self._was_opened)
        try:
            # Whoever comes meanwhile waits for the same one.
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            if not opening.cancelled():
                raise
            raise _unreachable(self.broker.id, "it is gone, or registered anew") from None

    def _was_opened(self, opening: asyncio.Task[PeerConnection]) -> None:
        self._opening = None
        if opening.cancelled():
            return
        failure = opening.exception()
        if failure is None:
            self._connection = opening.result()
            self._pause_s, self._failure = 0.0, None
        elif isinstance(failure, KafkaError):
            self._failure = failure
            self._pause_s = min(max(2 * self._pause_s, _FIRST_PAUSE_S), _LONGEST_PAUSE_S)
            self._paused_until_s = self._clock.monotonic_s() + self._pause_s


def _unreachable(broker_id: BrokerId, reason: object) -> KafkaError:
    return KafkaError(
        ErrorCode.NETWORK_EXCEPTION, f"Broker {broker_id} cannot be reached: {reason}"
    )
