"""`ottla consume`: from records to lines. tests/compat tries it on brokers."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import click
import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_NOT_AVAILABLE,
    KafkaError,
)

from ottla.cli.consume import (
    _checked_offset,
    _json_line,
    _offset_of,
    _printable,
    _Reading,
    _text_formatter,
)
from ottla.cli.errors import Failure
from ottla.cli.main import main


class FakeMessage:
    def __init__(
        self,
        value: bytes | None = b"v",
        *,
        key: bytes | None = None,
        headers: list[tuple[str, bytes | None]] | None = None,
        partition: int = 0,
        timestamp: tuple[int, int] = (TIMESTAMP_CREATE_TIME, 1_700_000_000_123),
        error: int | None = None,
    ) -> None:
        self.value = lambda: value
        self.key = lambda: key
        self.headers = lambda: headers
        self.partition = lambda: partition
        self.timestamp = lambda: timestamp
        self.topic = lambda: "t"
        self.offset = lambda: 7
        self.error = lambda: None if error is None else KafkaError(error)


class FakeConsumer:
    def __init__(self, *batches: list[FakeMessage]) -> None:
        self._batches = [list(batch) for batch in batches]

    def poll(self, _timeout: float) -> FakeMessage | None:
        if not self._batches:
            raise KeyboardInterrupt
        return self._batches[0].pop(0)

    def consume(self, _count: int, timeout: float) -> list[FakeMessage]:
        return self._batches.pop(0)


def end_of(partition: int) -> FakeMessage:
    return FakeMessage(partition=partition, error=KafkaError._PARTITION_EOF)


def read(*batches: list[FakeMessage], max_count: int | None = None, until_end: bool = False) -> int:
    consumer: Any = FakeConsumer(*batches)
    formatter = _text_formatter(False, False, False)
    return _Reading(consumer, "t", [0, 1], formatter, max_count, until_end).run()


def test_json_has_every_field() -> None:
    message: Any = FakeMessage(b"\xff", key="ünï".encode(), headers=[("a", b"1"), ("a", None)])

    assert json.loads(_json_line(message)) == {
        "topic": "t",
        "partition": 0,
        "offset": 7,
        "timestamp": 1_700_000_000_123,
        "timestamp_type": "create",
        "key": "ünï",
        "value_base64": "/w==",
        "headers": [{"key": "a", "value": "1"}, {"key": "a", "value": None}],
    }


def test_json_without_time_and_headers() -> None:
    message: Any = FakeMessage(None, timestamp=(TIMESTAMP_NOT_AVAILABLE, 0))
    fields = json.loads(_json_line(message))

    assert (fields["timestamp"], fields["timestamp_type"]) == (None, None)
    assert (fields["key"], fields["value"], fields["headers"]) == (None, None, [])


def test_text_shows_what_was_asked_for() -> None:
    message: Any = FakeMessage(b"v", key=None, headers=[("a", b"1"), ("b", None)])

    assert _text_formatter(False, False, False)(message) == b"v\n"
    assert _text_formatter(True, True, True)(message) == (
        b"2023-11-14T22:13:20.123Z 0:7\ta=1,b=null\tnull\tv\n"
    )


def test_a_terminal_is_not_given_control_characters() -> None:
    assert _printable("a\tü\x1b[2J\x9b\xff".encode()) == "a\tü\\x1b[2J\\x9bÿ".encode()
    assert _printable(b"\xff") == b"\\xff"


@pytest.mark.parametrize("text", ["-1", "x", "end", "end-", "1.5"])
def test_no_offset_is_a_usage_error(text: str) -> None:
    with pytest.raises(click.BadParameter):
        _checked_offset(text)


@pytest.mark.parametrize(
    ("text", "offset"),
    [
        (None, OFFSET_END),
        ("latest", OFFSET_END),
        ("earliest", OFFSET_BEGINNING),
        ("10", 10),
        ("50", 50),
        ("end-5", 45),
        ("end-100", 10),
    ],
)
def test_offsets(text: str | None, offset: int) -> None:
    consumer: Any = SimpleNamespace(get_watermark_offsets=lambda *_, **__: (10, 50))

    assert _offset_of(consumer, "t", 0, text) == offset


@pytest.mark.parametrize("text", ["9", "51"])
def test_an_offset_out_of_range_says_the_range(text: str) -> None:
    consumer: Any = SimpleNamespace(get_watermark_offsets=lambda *_, **__: (10, 50))

    with pytest.raises(Failure, match="t-0 has offsets 10 to 50"):
        _offset_of(consumer, "t", 0, text)


def test_it_ends_after_max(capsys: pytest.CaptureFixture[str]) -> None:
    messages = [FakeMessage(b"%d" % number) for number in range(5)]

    assert read(messages[:2], messages[2:], max_count=3) == 0
    assert capsys.readouterr().out == "0\n1\n2\n"


def test_it_ends_where_every_partition_ends_and_shows_nothing_newer(
    capsys: pytest.CaptureFixture[str],
) -> None:
    first = [FakeMessage(b"a"), end_of(0), FakeMessage(b"newer"), FakeMessage(b"b", partition=1)]

    assert read(first, [end_of(1)], until_end=True) == 0
    assert capsys.readouterr().out == "a\nb\n"


def test_ctrl_c_ends_an_endless_reading_well(capsys: pytest.CaptureFixture[str]) -> None:
    assert read([FakeMessage()]) == 0
    assert capsys.readouterr().err == "ottla: 1 record read from t\n"


def test_ctrl_c_before_the_asked_for_end_is_an_interruption() -> None:
    assert read([FakeMessage()], max_count=2) == 130
    assert read([FakeMessage()], until_end=True) == 130


def test_a_lost_connection_is_waited_out_but_another_error_ends_it() -> None:
    assert read([FakeMessage(error=KafkaError._TRANSPORT), FakeMessage()], max_count=1) == 0
    with pytest.raises(Failure, match=r"reading t-0 failed: .*OFFSET_OUT_OF_RANGE"):
        read([FakeMessage(error=KafkaError.OFFSET_OUT_OF_RANGE)])


def test_two_beginnings_are_a_usage_error() -> None:
    assert main(["consume", "t", "-b", "-o", "1"]) == 2
