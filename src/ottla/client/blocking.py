"""One connection to one broker, for code that waits: a socket, and a deadline for every wait."""

from __future__ import annotations

import socket
import time
from typing import Any, Generic, TypeVar, cast

from ottla.client.exchange import Exchange
from ottla.kernel.disk import Buffer
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.wire.api import ApiKey
from ottla.wire.codec import MalformedMessage
from ottla.wire.framing import FrameTooLarge
from ottla.wire.schema import Request, Response

R = TypeVar("R", bound=Response)

_JOINED_BYTES_MAX = 64 * 1024


class ClientError(Exception):
    """A broker could not be asked, or did not answer. What a broker did answer is a KafkaError.
    These, but for the last, may go away by themselves: a cluster's client tries again."""


class BrokerUnreachable(ClientError):
    """Nobody there: no such host, refused, or no answer to the attempt to connect."""


class ConnectionLost(ClientError):
    """It was there and went away, or spoke nonsense. Whether it has done what was asked is
    unknown."""


class RequestTimedOut(ClientError):
    """The connection stands and nothing comes. Also closed, because the answer may come yet and
    would be taken for that of the next."""


class GaveUp(ClientError):
    """It was tried again and again until the time was over. `__cause__` is the last reason."""

    def __init__(self, message: str, code: ErrorCode | None = None) -> None:
        super().__init__(message)
        self.code = code


class Deadline:
    """When to stop waiting, by a clock that never goes back."""

    __slots__ = ("_end_s", "total_s")

    def __init__(self, total_s: float) -> None:
        self.total_s = total_s
        self._end_s = time.monotonic() + total_s

    @property
    def left_s(self) -> float:
        return self._end_s - time.monotonic()

    @property
    def is_over(self) -> bool:
        return self.left_s <= 0

    def pause(self, pause_s: float) -> bool:
        """Waits so long, or not at all where that would be beyond it, and says which."""
        if self.left_s <= pause_s:
            return False
        time.sleep(pause_s)
        return True

    def at_most(self, total_s: float) -> Deadline:
        """The earlier of this one and one of so many seconds."""
        return Deadline(min(total_s, max(self.left_s, 0)))


class Pending(Generic[R]):
    """A request in flight. Its response comes while anyone waits on the same connection."""

    __slots__ = ("response",)

    def __init__(self) -> None:
        self.response: R | None = None


class BlockingConnection:
    """Opened by whoever talks to a broker, and closed by it. For one thread at a time. Several
    requests may be in flight; a failure of any kind closes it, and all of them are lost."""

    def __init__(self, host: str, port: int, *, client_id: str, deadline: Deadline) -> None:
        self.peer = f"{host}:{port}"
        self.is_lost = False
        self._exchange: Exchange[Pending[Any]] = Exchange(client_id)
        try:
            self._socket = socket.create_connection((host, port), max(deadline.left_s, 0.001))
        except OSError as error:
            raise BrokerUnreachable(
                f"cannot connect to {self.peer}: {error.strerror or error}"
            ) from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> BlockingConnection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.is_lost = True
        self._exchange.abandon()
        self._socket.close()

    def call(
        self, request: Request, response_class: type[R], version: int, deadline: Deadline
    ) -> R:
        return self.wait(self.send(request, response_class, version, deadline), deadline)

    def send(
        self, request: Request, response_class: type[R], version: int, deadline: Deadline
    ) -> Pending[R]:
        """Without waiting for the answer. Raises KafkaError where the version lacks a field that
        the request must not lose."""
        self._check_open()
        pending: Pending[R] = Pending()
        try:
            parts = self._exchange.request(request, version, pending)
        except ValueError as error:
            name = ApiKey(request.API_KEY).name
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"{name}: {error}") from error
        try:
            # A request has no slices of files, which is all that a socket could not send.
            for piece in _joined(cast("list[Buffer]", parts)):
                self._socket.settimeout(self._left_s(deadline))
                self._socket.sendall(piece)
        except OSError as error:
            raise self._lost(error, deadline) from error
        return pending

    def wait(self, pending: Pending[R], deadline: Deadline) -> R:
        """The answer to this request; those of requests before it come on the way."""
        while pending.response is None:
            self._check_open()
            self._receive(deadline)
        return pending.response

    def _receive(self, deadline: Deadline) -> None:
        try:
            self._socket.settimeout(self._left_s(deadline))
            count = self._socket.recv_into(self._exchange.get_buffer())
            if count == 0:
                raise ConnectionError("the broker closed it")
            for answered, response in self._exchange.bytes_received(count):
                answered.response = response
        except (OSError, FrameTooLarge, MalformedMessage) as error:
            raise self._lost(error, deadline) from error

    def _left_s(self, deadline: Deadline) -> float:
        left_s = deadline.left_s
        if left_s <= 0:
            raise TimeoutError
        return left_s

    def _lost(self, error: Exception, deadline: Deadline) -> ClientError:
        self.close()
        if isinstance(error, TimeoutError):
            return RequestTimedOut(f"{self.peer} did not answer in {deadline.total_s:.3g} s")
        return ConnectionLost(f"the connection to {self.peer} was lost: {error}")

    def _check_open(self) -> None:
        if self.is_lost:
            raise ConnectionLost(f"the connection to {self.peer} is closed")


def _joined(parts: list[Buffer]) -> list[Buffer]:
    """A small request leaves at once; a large one is not copied."""
    if sum(len(part) for part in parts) > _JOINED_BYTES_MAX:
        return parts
    return [b"".join(parts)]
