"""`ottla produce`: from lines to records. tests/compat tries it on brokers."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from ottla.cli.json_records import BadRecord, InputRecord
from ottla.cli.main import main
from ottla.cli.produce import LineFormat, _produce_all, _unescaped

PLAIN = LineFormat(is_json=False, key_separator=None, null_marker=None, headers=(), partition=None)


class FakeProducer:
    """Delivers at the next `poll` or `flush`, and is full with two records."""

    def __init__(self, error: KafkaError | None = None) -> None:
        self.sent: list[tuple[Any, Any, Any, dict[str, int]]] = []
        self._error = error
        self._queued: list[Callable[..., None]] = []

    def produce(
        self, topic: str, *, value: Any, key: Any, headers: Any, on_delivery: Any, **place: int
    ) -> None:
        if len(self._queued) == 2:
            raise BufferError
        if place.get("partition") == 9:
            raise KafkaException(KafkaError(KafkaError._UNKNOWN_PARTITION))
        self.sent.append((key, value, headers, place))
        self._queued.append(on_delivery)

    def poll(self, _timeout: float) -> None:
        for on_delivery in self._queued:
            on_delivery(self._error, None)
        self._queued.clear()

    def flush(self, _timeout: float) -> int:
        self.poll(0)
        return 0

    def __len__(self) -> int:
        return len(self._queued)


def run(lines: bytes, line_format: LineFormat, error: KafkaError | None = None) -> tuple[int, Any]:
    producer: Any = FakeProducer(error)
    return _produce_all(producer, "t", io.BytesIO(lines), line_format), producer.sent


def test_a_line_is_a_value() -> None:
    assert PLAIN.parse(b"a:b") == InputRecord(value=b"a:b")
    assert PLAIN.parse(b"") == InputRecord(value=b"")


def test_a_line_with_key_nulls_headers_and_partition() -> None:
    line_format = LineFormat(
        is_json=False, key_separator=b"::", null_marker=b"-", headers=(("h", b"1"),), partition=2
    )

    assert line_format.parse(b"k::v::w") == InputRecord(
        value=b"v::w", key=b"k", headers=(("h", b"1"),), partition=2
    )
    assert line_format.parse(b"-::-") == InputRecord(None, None, (("h", b"1"),), 2)
    with pytest.raises(BadRecord, match="no key separator '::'"):
        line_format.parse(b"kv")


def test_json_lines_get_the_headers_of_the_command_line_too() -> None:
    line_format = PLAIN._replace(is_json=True, headers=(("h", b"1"),))

    record = line_format.parse(b'{"value": "v", "partition": 1, "headers": {"a": "b"}}')
    assert record == InputRecord(b"v", None, (("a", b"b"), ("h", b"1")), 1)
    assert line_format._replace(partition=0).parse(b'{"partition": 1}').partition == 0


def test_a_tab_can_be_typed() -> None:
    assert _unescaped("\\t") == b"\t"


def test_every_line_is_sent_also_when_the_queue_is_full(capsys: pytest.CaptureFixture[str]) -> None:
    exit_code, sent = run(b"a\r\nb\n\nc", PLAIN)

    assert exit_code == 0
    assert [value for _, value, _, _ in sent] == [b"a", b"b", b"", b"c"]
    assert capsys.readouterr().err == "ottla: 4 records written to t\n"


def test_failed_records_are_counted_and_some_shown(capsys: pytest.CaptureFixture[str]) -> None:
    exit_code, _ = run(b"a\n" * 5, PLAIN, KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))

    lines = capsys.readouterr().err.splitlines()
    assert exit_code == 1
    assert len(lines) == 4
    assert "MSG_SIZE_TOO_LARGE" in lines[0]
    assert lines[-1] == "ottla: 0 records written to t, 5 failed"


def test_records_whose_outcome_is_unknown_are_not_said_to_have_failed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    exit_code, _ = run(b"a\n" * 5, PLAIN, KafkaError(KafkaError._MSG_TIMED_OUT))

    lines = capsys.readouterr().err.splitlines()
    assert exit_code == 1
    assert lines[0].startswith("ottla: a record was not acknowledged: ")
    assert lines[-1] == (
        "ottla: 0 records written to t, 5 not acknowledged (may have been written)"
    )


def test_on_ctrl_c_what_is_on_its_way_is_not_said_to_have_failed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Silent(FakeProducer):
        """Of a broker that does not answer; told to stop with the first wait."""

        def poll(self, _timeout: float) -> None:
            stop.set()

    stop = threading.Event()
    monkeypatch.setattr("ottla.cli.produce.stoppable", lambda: nullcontext(stop))
    producer: Any = Silent()
    exit_code = _produce_all(producer, "t", io.BytesIO(b"a\nb\nc\n"), PLAIN)

    assert exit_code == 130
    assert capsys.readouterr().err == (
        "ottla: 0 records written to t, 2 not acknowledged (may have been written)\n"
    )


def test_a_record_that_is_refused_at_once_is_counted_too(
    capsys: pytest.CaptureFixture[str],
) -> None:
    exit_code, sent = run(b"a\n", PLAIN._replace(partition=9))

    assert (exit_code, sent) == (1, [])
    assert "UNKNOWN_PARTITION" in capsys.readouterr().err


def test_a_bad_line_stops_it_and_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    exit_code, sent = run(
        b'{"value": "a"}\n\n{oops\n{"value": "b"}\n', PLAIN._replace(is_json=True)
    )

    assert exit_code == 1
    assert len(sent) == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("ottla: line 3: no JSON")
    assert lines[1] == "ottla: 1 record written to t"


def test_on_a_terminal_a_bad_line_is_told_of_and_left_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    class Terminal(io.BytesIO):
        def isatty(self) -> bool:
            return True

    producer: Any = FakeProducer()
    terminal = Terminal(b"a:1\noops\nb:2\n")
    exit_code = _produce_all(producer, "t", terminal, PLAIN._replace(key_separator=b":"))

    assert exit_code == 0
    assert [(key, value) for key, value, _, _ in producer.sent] == [(b"a", b"1"), (b"b", b"2")]
    assert capsys.readouterr().err.splitlines() == [
        "ottla: not sent: there is no key separator ':'",
        "ottla: 2 records written to t",
    ]


@pytest.mark.parametrize("args", [["--json", "-k", ":"], ["-k", ""], ["--header", "x"]])
def test_contradictions_are_usage_errors(args: list[str]) -> None:
    assert main(["produce", "t", *args]) == 2
