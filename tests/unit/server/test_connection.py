from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from ottla.kernel.clock import SystemClock
from ottla.kernel.errors import ErrorCode
from ottla.kernel.transport import Part
from ottla.records.builder import build_batch
from ottla.records.record import Record
from ottla.server import connection
from ottla.server.connection import UNANSWERED_COUNT_MAX, UNSENT_BYTES_MAX, Connection
from ottla.server.dispatch import Dispatcher, Reply
from ottla.server.errors import BadRequest
from ottla.server.refused_connections import RefusedConnections
from ottla.server.request_memory import RequestMemory
from ottla.wire.framing import FrameReader
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.wire.messages.offset_commit import OffsetCommitResponse
from ottla.wire.messages.produce import ProduceResponse
from tests.support.raw_group import commit_request
from tests.support.simulated_broker import SimulatedBroker, produce_request, with_broker
from tests.support.simulated_group import committed, find_coordinator


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


PRODUCE, FETCH = b"\0\0", b"\0\1"


class ScriptedDispatcher(Dispatcher):
    """Answers `a...` with `A...` at once, `b...` with much at once, `l...` later, `n...` never;
    the rest is bad. An API key may stand before it."""

    def __init__(self) -> None:
        self.later: dict[bytes, asyncio.Future[Reply | None]] = {}
        self.begun: list[bytes] = []

    def dispatch(
        self, frame: memoryview, listener_name: str, peer_host: str
    ) -> Reply | asyncio.Future[Reply | None] | None:
        name = bytes(frame)
        self.begun.append(name)
        match name.removeprefix(FETCH).removeprefix(PRODUCE)[:1]:
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
        second, fourth = FETCH + b"l2", FETCH + b"l4"
        harness.receive(b"a1", second, b"a3", fourth, b"a5")
        assert harness.sent == b"A1"
        await harness.answer(fourth)
        assert harness.sent == b"A1"
        await harness.answer(second)
        assert harness.sent == b"A1 \0\1L2 A3 \0\1L4 A5"

    asyncio.run(main())


def test_a_request_begins_when_those_before_it_had_their_effect() -> None:
    async def main() -> None:
        harness = Harness()
        harness.receive(b"l1", b"a2", b"l3", b"a4")
        assert harness.dispatcher.begun == [b"l1"]
        await harness.answer(b"l1")
        assert harness.dispatcher.begun == [b"l1", b"a2", b"l3"]
        assert harness.sent == b"L1 A2"
        await harness.answer(b"l3")
        assert harness.sent == b"L1 A2 L3 A4"
        assert harness.is_reading()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("before", "behind", "passes"),
    [
        (FETCH, b"a", True),
        (FETCH, PRODUCE + b"a", True),
        (FETCH, FETCH + b"a", True),
        (PRODUCE, PRODUCE + b"a", True),
        (PRODUCE, FETCH + b"a", False),
        (PRODUCE, b"a", False),
        (b"", b"a", False),
        (b"", PRODUCE + b"a", False),
        (b"", FETCH + b"a", False),
    ],
)
def test_a_fetch_that_waits_may_be_passed_and_a_produce_by_a_produce(
    before: bytes, behind: bytes, passes: bool
) -> None:
    async def main() -> None:
        harness = Harness()
        harness.receive(before + b"l")
        harness.receive(behind)
        assert harness.dispatcher.begun == [before + b"l", behind][: 1 + passes]
        await harness.answer(before + b"l")
        assert harness.dispatcher.begun == [before + b"l", behind]
        assert harness.transport.sent == [(before + b"l").upper(), behind.upper()]

    asyncio.run(main())


def test_a_produce_without_an_answer_is_waited_for() -> None:
    async def main() -> None:
        harness = Harness()
        harness.receive(PRODUCE + b"l", b"a")
        assert harness.sent == b""
        harness.dispatcher.later[PRODUCE + b"l"].set_result(None)
        await asyncio.sleep(0)
        assert harness.sent == b"A"

    asyncio.run(main())


def test_a_request_that_wants_no_answer_holds_nobody_up() -> None:
    harness = Harness()
    harness.receive(b"n1", b"a2")
    assert harness.sent == b"A2"


def test_reading_stops_at_too_many_unanswered_and_goes_on_when_they_are_answered() -> None:
    async def main() -> None:
        harness = Harness()
        names = [PRODUCE + b"l%d" % number for number in range(UNANSWERED_COUNT_MAX)]
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
        names = [PRODUCE + b"l%d" % number + bytes(4000) for number in range(5)]
        harness.receive(*names)
        assert harness.transport.is_reading is False
        assert list(harness.dispatcher.later) == names[:3]
        for name in names:
            harness.dispatcher.later[name].set_result([name[2:4]])
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
        first, second = PRODUCE + b"l1", PRODUCE + b"l2"
        harness.receive(first, second)
        harness.dispatcher.later[first].set_exception(error)
        await harness.answer(second)
        assert harness.transport.is_closed
        assert harness.sent == b""

    asyncio.run(main())
    assert str(error) in caplog.text
    assert "somebody:1" in caplog.text


def test_nothing_is_handled_after_the_end() -> None:
    async def main() -> None:
        harness = Harness()
        names = [PRODUCE + b"l%d" % number for number in range(UNANSWERED_COUNT_MAX)]
        harness.receive(*names, b"l-over")
        harness.dispatcher.later[names[0]].set_exception(BadRequest("no"))
        await asyncio.sleep(0)
        harness.connection.bytes_sent()
        await harness.answer(names[1])
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


def test_a_request_that_somebody_else_cancels_is_not_waited_for_for_ever() -> None:
    """What it awaited was cancelled. Its client, and what it has asked since, would wait until the
    client's own time-out: it is to try again."""

    async def test() -> None:
        harness = Harness()
        harness.receive(b"l1", b"l2")
        harness.dispatcher.later[b"l1"].cancel()
        await asyncio.sleep(0)
        assert harness.transport.is_closed

    asyncio.run(test())


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


def list_latest(topic: str) -> ListOffsetsRequest:
    asked = ListOffsetsPartition(partition_index=0, timestamp=-1)
    return ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[asked])]
    )


@pytest.mark.parametrize("acks", [0, 1, -1])
@pytest.mark.parametrize(
    "config", [{"flush_messages": "1"}, {"compression_type": "gzip"}, {"cleanup_policy": "compact"}]
)
def test_whoever_asks_behind_a_produce_sees_what_it_wrote(
    config: dict[str, str], acks: int
) -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t", 1, **config)
        client = await broker.connect()
        for number in range(5):
            batch = build_batch([Record(0, 1_700_000_000_000, b"k", b"v")])
            request = produce_request("t", batch, acks=acks)
            if acks:
                produced = asyncio.ensure_future(client.call(request, ProduceResponse, 9))
                await asyncio.sleep(0)
            else:
                client.send_unanswered(request, 9)
            latest = await client.call(list_latest("t"), ListOffsetsResponse, 6)
            assert latest.topics[0].partitions[0].offset == number + 1
            if acks:
                await produced

    with_broker(test)


def test_of_commits_that_follow_each_other_the_last_one_stands() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        await find_coordinator(broker, "g")
        for log in broker.machine.broker.logs.logs.values():
            log.set_config(replace(log.config, flush_messages=1))
        for number in broker.machine.broker.replicas.topic_partitions():
            broker.machine.broker.replicas.partition(*number).config_changed()
        client = await broker.connect()
        for first in range(0, 200, 10):
            commits = [
                client.call(commit_request("g", {"t": {0: offset}}), OffsetCommitResponse, 9)
                for offset in range(first, first + 10)
            ]
            for answer in await asyncio.gather(*commits):
                assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE
            assert await committed(broker, "g") == {("t", 0): first + 9}

    with_broker(test)
