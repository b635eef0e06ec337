"""One client's connection: frames in, replies out in the order of their requests.

A request is handled to completion where it arrived. What cannot be answered at once keeps its
place in the queue, and the replies behind it wait (Kafka's clients rely on the order).

Requests take effect in the order in which they were sent, as Kafka promises: one begins when those
before it are answered, or, if they are to have no answer, done. Two kinds go on meanwhile: a Fetch
that waits may be passed by anything, for it has no effect; and a Produce may follow a Produce, for
partitions keep the order of their appends themselves. Neither holds for one so large that it is
worked through in slices.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable

from ottla.kernel.transport import Part, Transport
from ottla.server.dispatch import Dispatcher, LargeRequest, Reply
from ottla.server.errors import BadRequest
from ottla.server.other_protocols import remedy_for
from ottla.server.refused_connections import RefusedConnections
from ottla.server.request_memory import RequestMemory
from ottla.wire.api import ApiKey
from ottla.wire.framing import FrameReader, FrameTooLarge

log = logging.getLogger(__name__)

_PRODUCE = int(ApiKey.PRODUCE)
_FETCH = int(ApiKey.FETCH)
_ANY_API = -1

# A client that sends without reading is held back by its own connection.
UNANSWERED_COUNT_MAX = 64
UNSENT_BYTES_MAX = 1024 * 1024
UNANSWERED_BYTES_MAX = 8 * 1024 * 1024
"""Five batches of a producer with room to spare. Until it is answered a request may be held in
memory as a whole."""

# Small replies of one read leave together; this many bytes are worth a system call of their own.
SMALL_REPLY_BYTES_MAX = 4096


class Slot:
    """A request's place in the queue of replies."""

    __slots__ = ("is_done", "reply")

    def __init__(self) -> None:
        self.is_done = False
        self.reply: Reply | None = None


class Connection:
    """Owned by its listener; lives as long as the socket. A crash leaves nothing behind."""

    def __init__(
        self,
        transport: Transport,
        dispatcher: Dispatcher,
        frames: FrameReader,
        listener_name: str,
        memory: RequestMemory,
        refused: RefusedConnections,
        on_lost: Callable[[Connection], None],
    ) -> None:
        self.was_active = True  # since the last look for idle connections
        self.idle_look_count = 0
        self._transport = transport
        self._dispatch = dispatcher.dispatch
        self._frames = frames
        self._listener_name = listener_name
        self._memory = memory
        self._refused = refused
        self._on_lost = on_lost
        self._slots: deque[Slot] = deque()
        # Those end with the connection, in their order, so that a simulation repeats.
        self._futures: dict[asyncio.Future[Reply | None], None] = {}
        self._unanswered_bytes = 0
        self._produce_count = 0  # Under way.
        self._effect_count = 0  # Under way, of all other requests but fetches.
        self._backlog: deque[memoryview] = deque()
        self._held_bytes = 0
        self._is_paused = False
        self._is_closed = False

    @property
    def peer(self) -> str:
        return self._transport.peer

    @property
    def is_waiting(self) -> bool:
        """Whether the client waits for this broker: then it is not idle."""
        return bool(self._slots)

    @property
    def held_byte_count(self) -> int:
        """What an unfinished request of this client keeps from others, while nothing but its
        client keeps it from going on."""
        return 0 if self._memory.is_waiting(self) else self._held_bytes

    @property
    def received_byte_count(self) -> int:
        """What is there of that request."""
        return self._frames.received_byte_count

    def close(self) -> None:
        self._is_closed = True
        self._transport.close()

    def get_buffer(self) -> memoryview:
        return self._frames.get_buffer()

    def bytes_received(self, count: int) -> None:
        self.was_active = True
        try:
            frames = self._frames.bytes_received(count)
        except FrameTooLarge as error:
            self._refuse_too_large(error)
            return
        self._handle_frames(frames)
        if self._backlog:
            # The transport calls back only if it had to wait; it may have sent all at once.
            self._go_on()
        if self._frames.held_byte_count != self._held_bytes:
            self._account()

    def bytes_sent(self) -> None:
        if self._is_paused:
            self._go_on()

    def connection_lost(self, error: BaseException | None) -> None:
        self._is_closed = True
        if error is not None:
            log.debug("connection lost peer=%s error=%s", self.peer, error)
        self._slots.clear()
        self._backlog.clear()
        for future in self._futures:
            future.cancel()
        self._frames.forget()
        self._memory.release(self)
        self._held_bytes = 0
        self._on_lost(self)

    def _handle_frames(self, frames: list[memoryview]) -> None:
        small: list[bytes] = []
        slots = self._slots
        for index, frame in enumerate(frames):
            if self._is_closed:
                return
            if (
                (slots and not self._may_begin(frame))
                or self._unanswered_bytes > UNANSWERED_BYTES_MAX
                or self._transport.unsent_byte_count > UNSENT_BYTES_MAX
            ):
                # The receive buffer is reused for other connections: what waits is copied.
                self._backlog.extend(memoryview(bytearray(rest)) for rest in frames[index:])
                break
            try:
                answer = self._dispatch(frame, self._listener_name, self._transport.peer_host)
            except BadRequest as error:
                self._transport.send(small)
                self._refuse(error)
                return
            except Exception as error:  # A bug of ours costs its connection, never the broker.
                self._transport.send(small)
                self._fail(error)
                return
            if type(answer) is list:
                if slots:
                    self._occupy_slot(answer)
                elif len(answer) == 1 and len(answer[0]) <= SMALL_REPLY_BYTES_MAX:
                    # Only small ones gather, so that what is unsent is known at each frame.
                    small += answer  # type: ignore[arg-type]  # The first part is always bytes.
                else:
                    self._transport.send(small + answer)
                    small = []
            elif type(answer) is LargeRequest:
                self._await(answer.reply, frame, _ANY_API)
            elif answer is not None:
                self._await(answer, frame, _api_key(frame))  # type: ignore[arg-type]
        if small:
            self._transport.send((b"".join(small),))
        self._pause_if_full()

    def _occupy_slot(self, reply: Reply) -> None:
        slot = Slot()
        slot.is_done = True
        slot.reply = reply
        self._slots.append(slot)

    def _may_begin(self, frame: memoryview) -> bool:
        """Behind those that are not answered yet."""
        if self._effect_count or len(self._slots) >= UNANSWERED_COUNT_MAX:
            return False
        return not self._produce_count or _api_key(frame) == _PRODUCE

    def _count(self, api_key: int, change: int) -> None:
        if api_key == _PRODUCE:
            self._produce_count += change
        elif api_key != _FETCH:
            self._effect_count += change

    def _await(self, future: asyncio.Future[Reply | None], frame: memoryview, api_key: int) -> None:
        request_bytes = len(frame)
        self._unanswered_bytes += request_bytes
        self._count(api_key, +1)
        slot = Slot()
        self._slots.append(slot)
        if api_key != _ANY_API or _api_key(frame) != _PRODUCE:
            # A Produce in slices is written though its client may be gone: maybe it waits for no
            # answer. All others have their place, or ask the transaction coordinator.
            self._futures[future] = None

        def on_done(done: asyncio.Future[Reply | None]) -> None:
            self._futures.pop(done, None)
            self._unanswered_bytes -= request_bytes
            self._count(api_key, -1)
            if done.cancelled():
                if not self._is_closed:
                    # Not by us: what it waited for was. Whoever asked is to ask again.
                    log.warning("closing connection peer=%s: a request was cancelled", self.peer)
                    self.close()
                return
            error = done.exception()
            if error is not None and not isinstance(error, BadRequest):
                self._fail(error)
                return
            if self._is_closed:
                return
            if error is not None:
                self._refuse(error)
                return
            slot.is_done = True
            slot.reply = done.result()
            self._send_done()

        future.add_done_callback(on_done)

    def _send_done(self) -> None:
        out: list[Part] = []
        slots = self._slots
        while slots and slots[0].is_done:
            reply = slots.popleft().reply
            if reply is not None:
                out += reply
        if out:
            self._transport.send(out)
        if self._is_paused:
            self._go_on()

    def _pause_if_full(self) -> None:
        if not self._is_paused and self._is_full():
            self._is_paused = True
            self._transport.pause_reading()

    def _is_full(self) -> bool:
        return (
            bool(self._backlog)
            or len(self._slots) >= UNANSWERED_COUNT_MAX
            or self._unanswered_bytes > UNANSWERED_BYTES_MAX
            or self._transport.unsent_byte_count > UNSENT_BYTES_MAX
            or self._memory.is_waiting(self)
        )

    def _go_on(self) -> None:
        """Takes up what waited, if there is room for it now."""
        if self._is_closed:
            return
        while (
            self._backlog
            and self._may_begin(self._backlog[0])
            and self._unanswered_bytes <= UNANSWERED_BYTES_MAX
            and self._transport.unsent_byte_count <= UNSENT_BYTES_MAX
        ):
            self._handle_frames([self._backlog.popleft()])
        if not self._is_full():
            self._is_paused = False
            self._transport.resume_reading()

    def _account(self) -> None:
        """A frame that is not complete holds memory of its own: it counts against what all
        requests together may hold, and reading waits when that is used up."""
        self._held_bytes = held = self._frames.held_byte_count
        if not held:
            self._memory.release(self)
        elif not self._memory.hold(self, held, self._go_on):
            self._pause_if_full()

    def _refuse(self, error: BadRequest) -> None:
        self._refused.note(self.peer, self._transport.peer_host, str(error), error.kind)
        self.close()

    def _refuse_too_large(self, error: FrameTooLarge) -> None:
        remedy = remedy_for(error.head)
        if remedy is None:
            reason = f"its request is too large: {error}"
            self._refused.note(self.peer, self._transport.peer_host, reason, "too large")
        else:
            self._refused.note(self.peer, self._transport.peer_host, remedy)
        self.close()

    def _fail(self, error: BaseException) -> None:
        log.error("closing connection peer=%s: a request failed", self.peer, exc_info=error)
        self.close()


def _api_key(frame: memoryview) -> int:
    """As a request begins with it; of a frame that is too short, some number."""
    return int.from_bytes(frame[:2])
