"""The broker's listeners and the connections that came through them."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from functools import partial

from ottla.config.broker import BrokerConfig
from ottla.kernel.clock import Clock, Timer
from ottla.kernel.transport import Listener, Network, Receiver, Transport
from ottla.server.connection import Connection
from ottla.server.dispatch import SHARED_FRAME_BYTES_MAX, Dispatcher
from ottla.server.refused_connections import RefusedConnections
from ottla.server.request_memory import RequestMemory
from ottla.wire.framing import FrameReader

log = logging.getLogger(__name__)

# Only Produce carries data; whatever else is this large was not sent by a client.
OTHER_FRAME_BYTES_MAX = 8 * 1024 * 1024

# What requests may hold where `queued.max.request.bytes` leaves it open.
REQUEST_MEMORY_BYTES_DEFAULT = 512 * 1024 * 1024


# Where all of it is taken and others wait, a request must come at a pace that would fill what it
# holds within sixty times this. Else clients that begin large requests and never end them would
# keep every large batch out until they are found idle.
PACE_S = 10.0
PACE_COUNT_MAX = 60


class Server:
    """Owned by the broker, from when it can answer until it stops."""

    def __init__(
        self,
        network: Network,
        dispatcher: Dispatcher,
        current_config: Callable[[], BrokerConfig],
        clock: Clock,
    ) -> None:
        """How many connections there may be can change while the broker runs, the rest cannot."""
        config = current_config()
        self._network = network
        self._dispatcher = dispatcher
        self._config = config
        self._current_config = current_config
        self._clock = clock
        self._receive_buffer = memoryview(bytearray(SHARED_FRAME_BYTES_MAX))
        byte_count_max = config.queued_max_request_bytes
        self._memory = RequestMemory(
            byte_count_max if byte_count_max > 0 else REQUEST_MEMORY_BYTES_DEFAULT,
            self._look_at_pace_later,
        )
        self._refused = RefusedConnections(clock)
        self._listeners: list[Listener] = []
        self._connections: dict[Connection, None] = {}
        self._counts: Counter[str] = Counter()
        """Of open connections, by the address of the client."""
        self._idle_timer: Timer | None = None
        self._pace_timer: Timer | None = None

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    def listen(self, name: str, host: str, port: int) -> int:
        """Takes the address. Returns the port, which matters where 0 was asked for."""

        def accept(transport: Transport) -> Receiver:
            return self._accept(transport, name)

        listener = self._network.listen(host, port, accept)
        self._listeners.append(listener)
        return listener.port

    def start(self) -> None:
        """Begins to accept."""
        for listener in self._listeners:
            listener.start()
        self._look_for_idle_later()

    def close(self) -> None:
        for timer in (self._idle_timer, self._pace_timer):
            if timer is not None:
                timer.cancel()
        self._refused.close()
        for listener in self._listeners:
            listener.close()
        for connection in list(self._connections):
            connection.close()

    def _accept(self, transport: Transport, listener_name: str) -> Connection:
        frames = FrameReader(
            self._receive_buffer,
            self._config.socket_request_max_bytes,
            min(OTHER_FRAME_BYTES_MAX, self._config.socket_request_max_bytes),
        )
        connection = Connection(
            transport,
            self._dispatcher,
            frames,
            listener_name,
            self._memory,
            self._refused,
            partial(self._lost, host=transport.peer_host),
        )
        if (reason := self._reason_to_refuse(transport.peer_host)) is not None:
            self._refused.note(transport.peer, transport.peer_host, f"{reason} are open")
            connection.close()
        self._connections[connection] = None
        self._counts[transport.peer_host] += 1
        return connection

    def _reason_to_refuse(self, host: str) -> str | None:
        config = self._current_config()
        if len(self._connections) >= config.max_connections:
            return f"max.connections={config.max_connections}"
        if self._counts[host] >= config.max_connections_per_ip:
            return f"max.connections.per.ip={config.max_connections_per_ip}"
        return None

    def _lost(self, connection: Connection, *, host: str) -> None:
        self._connections.pop(connection, None)
        self._counts[host] -= 1
        if not self._counts[host]:
            del self._counts[host]

    def _look_for_idle_later(self) -> None:
        # A connection is closed when it was silent for two looks in a row, so after one to one
        # and a half times the time that it is given.
        delay_s = self._config.connections_max_idle_ms / 2000
        if delay_s > 0:
            self._idle_timer = self._clock.call_later(delay_s, self._look_for_idle)

    def _look_for_idle(self) -> None:
        for connection in list(self._connections):
            if connection.was_active or connection.is_waiting:
                connection.was_active = False
                connection.idle_look_count = 0
            else:
                connection.idle_look_count += 1
                if connection.idle_look_count == 2:
                    log.info("closing connection peer=%s: idle", connection.peer)
                    connection.close()
        self._look_for_idle_later()

    def _look_at_pace_later(self) -> None:
        if self._pace_timer is None:
            received = {
                connection: connection.received_byte_count
                for connection in self._connections
                if connection.held_byte_count
            }
            look = partial(self._look_at_pace, received)
            self._pace_timer = self._clock.call_later(PACE_S, look)

    def _look_at_pace(self, received: dict[Connection, int]) -> None:
        self._pace_timer = None
        for connection, before in received.items():
            held = connection.held_byte_count
            came = connection.received_byte_count - before
            # Less than nothing came when it finished that request and began another.
            if held and 0 <= came < held // PACE_COUNT_MAX and self._memory.is_used_up:
                log.warning(
                    "closing connection peer=%s: a request of %d bytes comes too slowly while "
                    "others wait for memory",
                    connection.peer,
                    held,
                )
                connection.close()
        if self._memory.is_used_up:
            self._look_at_pace_later()
