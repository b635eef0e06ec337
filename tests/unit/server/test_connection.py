from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest

from ottla.kernel.clock import SystemClock
from ottla.kernel.transport import Part
from ottla.server import connection
from ottla.server.connection import UNANSWERED_COUNT_MAX, UNSENT_BYTES_MAX, Connection
from ottla.server.dispatch import Dispatcher, Reply
from ottla.server.errors import BadRequest
from ottla.server.refused_connections import RefusedConnections
from ottla.server.request_memory import RequestMemory
from ottla.wire.framing import FrameReader


class RecordingTransport:
    peer = "somebody:1"
    peer_host = "somebody"

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.unsent_byte_count = 0
        self.is_reading = True
        self.is_closed = False

    def send(self, parts: Sequence[Part]) -> None:
        self.sent += [bytes(part) for part in parts if not hasattr(part, "file")]

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True

    def close(self) -> None:
        self.is_closed = True


class NoTimer:
    def cancel(self) -> None:
        pass


class NoClock(SystemClock):
    """Nothing that is to happen later happens."""

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> NoTimer:
        return NoTimer()


class ScriptedDispatcher(Dispatcher):
    """Answers `a...` with `A...` at once, `b...` with much at once, `l...` later, `n...` never;
    the rest is bad."""

    def __init__(self) -> None:
        self.later: dict[bytes, asyncio.Future[Reply | None]] = {}

    def dispatch(
        self, frame: memoryview, listener_name: str, peer_host: str
    ) -> Reply | asyncio.Future[Reply | None] | None:
        name = bytes(frame)
        match name[:1]:
            case b"a":
                return [name.upper()]
            case b"b":
                return [bytes(UNSENT_BYTES_MAX + 1)]
            case b"l":
                self.later[name] = asyncio.get_running_loop().create_future()
                return self.later[name]
            case b"n":
                return None
            case b"!":
                raise RuntimeError("a bug")
        raise BadRequest("what is that?")


class Harness:
    def __init__(self, memory_bytes: int = 1 << 20) -> None:
        self.transport = RecordingTransport()
        self.dispatcher = ScriptedDispatcher()
        self.lost: list[Connection] = []
        self.memory = RequestMemory(memory_bytes, lambda: None)
        self.connection = Connection(
            self.transport,
            self.dispatcher,
            FrameReader(memoryview(bytearray(64 * 1024)), 1 << 20, 1 << 20),
            "PLAINTEXT",
            self.memory,
            RefusedConnections(NoClock()),
            self.lost.append,
        )

    def receive(self, *names: bytes) -> None:
        self.receive_bytes(b"".join(len(name).to_bytes(4, "big") + name for name in names))

    def receive_bytes(self, content: bytes) -> None:
        self.connection.get_buffer()[: len(content)] = content
        self.connection.bytes_received(len(content))

    async def answer(self, name: bytes) -> None:
        self.dispatcher.later[name].set_result([name.upper()])
        await asyncio.sleep(0)

    def is_reading(self) -> bool:
        return self.transport.is_reading

    @property
    def sent(self) -> bytes:
        return b" ".join(self.transport.sent)


def test_answers_of_one_read_are_sent_together() -> None:
    harness = Harness()
    harness.receive(b"a1", b"a2", b"a3")
    assert harness.transport.sent == [b"A1A2A3"]


def test_answers_keep_the_order_of_their_requests() -> None:
    async def main() -> None:
        harness = Harness()
        harness.receive(b"a1", b"l2", b"a3", b"l4", b"a5")
        assert harness.sent == b"A1"
        await harness.answer(b"l4")
        assert harness.sent == b"A1"
        await harness.answer(b"l2")
        assert harness.sent == b"A1 L2 A3 L4 A5"

    asyncio.run(main())


def test_a_request_that_wants_no_answer_holds_nobody_up() -> None:
    harness = Harness()
    harness.receive(b"n1", b"a2")
    assert harness.sent == b"A2"


def test_reading_stops_at_too_many_unanswered_and_goes_on_when_they_are_answered() -> None:
    async def main() -> None:
        harness = Harness()
        names = [b"l%d" % number for number in range(UNANSWERED_COUNT_MAX)]
        harness.receive(*names, b"a-over")
        assert not harness.is_reading()
        assert len(harness.dispatcher.later) == UNANSWERED_COUNT_MAX
        for name in names:
            await harness.answer(name)
        assert harness.is_reading()
        assert harness.sent.endswith(b"L63 A-OVER")

    asyncio.run(main())


def test_reading_stops_at_too_much_that_is_unanswered(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        monkeypatch.setattr(connection, "UNANSWERED_BYTES_MAX", 10_000)
        harness = Harness()
        names = [b"l%d" % number + bytes(4000) for number in range(5)]
        harness.receive(*names)
        assert harness.transport.is_reading is False
        assert list(harness.dispatcher.later) == names[:3]
        for name in names:
            harness.dispatcher.later[name].set_result([name[:2]])
            await asyncio.sleep(0)
        assert harness.transport.is_reading
        assert b"".join(harness.transport.sent) == b"l0l1l2l3l4"

    asyncio.run(test())


def test_reading_stops_while_a_client_does_not_read() -> None:
    harness = Harness()
    harness.transport.unsent_byte_count = UNSENT_BYTES_MAX + 1
    harness.receive(b"a1")
    assert not harness.is_reading()
    harness.transport.unsent_byte_count = 0
    harness.connection.bytes_sent()
    assert harness.is_reading()


def test_what_came_with_a_large_answer_is_handled_though_all_of_it_was_sent_at_once() -> None:
    """The transport calls back only when it had to wait; a librdkafka consumer hung for 60 s."""
    harness = Harness()
    harness.receive(b"big", b"a1", b"big", b"a2")
    assert [sent for sent in harness.transport.sent if len(sent) < 10] == [b"A1", b"A2"]
    assert harness.is_reading()


def test_a_request_that_is_none_closes_the_connection() -> None:
    harness = Harness()
    harness.receive(b"x")
    assert harness.transport.is_closed


def test_a_bug_in_a_handler_costs_its_connection_only() -> None:
    harness = Harness()
    harness.receive(b"!", b"a2")
    assert harness.transport.is_closed
    assert harness.sent == b""


@pytest.mark.parametrize("bad", [b"x", b"!"])
def test_what_was_answered_before_a_bad_request_is_sent(bad: bytes) -> None:
    harness = Harness()
    harness.receive(b"a1", bad, b"a3")
    assert harness.sent == b"A1"
    assert harness.transport.is_closed


@pytest.mark.parametrize("error", [BadRequest("no"), RuntimeError("a bug")])
def test_an_answer_that_fails_later_closes_the_connection(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        harness = Harness()
        harness.receive(b"l1", b"l2")
        harness.dispatcher.later[b"l1"].set_exception(error)
        await harness.answer(b"l2")
        assert harness.transport.is_closed
        assert harness.sent == b""

    asyncio.run(main())
    assert str(error) in caplog.text
    assert "somebody:1" in caplog.text


def test_nothing_is_handled_after_the_end() -> None:
    async def main() -> None:
        harness = Harness()
        harness.receive(*[b"l%d" % number for number in range(UNANSWERED_COUNT_MAX)], b"l-over")
        harness.dispatcher.later[b"l0"].set_exception(BadRequest("no"))
        await asyncio.sleep(0)
        harness.connection.bytes_sent()
        await harness.answer(b"l1")
        assert b"l-over" not in harness.dispatcher.later

    asyncio.run(main())


def test_a_frame_over_the_limit_closes_the_connection() -> None:
    harness = Harness()
    harness.receive_bytes((1 << 30).to_bytes(4, "big"))
    assert harness.transport.is_closed


def test_what_is_lost_is_cancelled() -> None:
    async def main() -> None:
        harness = Harness()
        harness.receive(b"l1")
        harness.connection.connection_lost(None)
        await asyncio.sleep(0)
        assert harness.dispatcher.later[b"l1"].cancelled()
        assert harness.lost == [harness.connection]

    asyncio.run(main())


def test_large_frames_wait_for_memory_and_give_it_back() -> None:
    harness = Harness(memory_bytes=100_000)
    assert harness.memory.hold("other", 90_000, lambda: None)
    frame = b"a" * 50_000
    content = len(frame).to_bytes(4, "big") + frame
    harness.receive_bytes(content[:30_000])
    assert not harness.is_reading()
    harness.memory.release("other")
    assert harness.is_reading()
    rest = content[30_000:]
    harness.connection.get_buffer()[: len(rest)] = rest
    harness.connection.bytes_received(len(rest))
    assert harness.sent == frame.upper()
    assert harness.memory.hold("other", 100_000, lambda: None)
    assert not harness.memory.is_used_up


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "security.protocol=PLAINTEXT"),
        (b"GET /metrics HTTP/1.1\r\n\r\n", "speaks HTTP"),
        (b"\x7f\xff\xff\xff\x00\x00", "too large: 2147483647 bytes; the limit is 1048576"),
    ],
)
def test_a_client_of_another_protocol_is_told_apart(
    head: bytes, expected: str, caplog: pytest.LogCaptureFixture
) -> None:
    harness = Harness()
    harness.receive_bytes(head)
    assert harness.transport.is_closed
    assert [expected in message for message in caplog.messages] == [True]
    assert "peer=somebody:1" in caplog.text
