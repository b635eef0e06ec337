"""From records to lines."""

from __future__ import annotations

import json

import pytest
from confluent_kafka import TIMESTAMP_NOT_AVAILABLE

from ottla.cli.consume.lines import TextLines, json_line, printable, terminal_colours
from ottla.cli.consume.pretty_json import NO_COLOURS
from tests.unit.cli.consume.fakes import a_message


def test_json_has_every_field() -> None:
    message = a_message(b"\xff", key="ünï".encode(), headers=[("a", b"1"), ("a", None)])

    assert json.loads(json_line(message)) == {
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
    fields = json.loads(json_line(a_message(None, timestamp=(TIMESTAMP_NOT_AVAILABLE, 0))))

    assert (fields["timestamp"], fields["timestamp_type"]) == (None, None)
    assert (fields["key"], fields["value"], fields["headers"]) == (None, None, [])


def test_text_shows_what_was_asked_for() -> None:
    message = a_message(b"v", key=None, headers=[("a", b"1"), ("b", None)])
    everything = TextLines(has_key=True, has_headers=True, has_meta=True)

    assert TextLines().line(message) == b"v\n"
    assert everything.line(message) == b"2023-11-14T22:13:20.123Z 0:7\ta=1,b=null\tnull\tv\n"
    with_topic = TextLines(has_meta=True, has_topic=True)
    assert with_topic.line(message) == b"2023-11-14T22:13:20.123Z t:0:7\tv\n"


def test_a_terminal_is_not_given_control_characters() -> None:
    assert printable("a\tü\x1b[2J\x9b\xff".encode()) == "a\tü\\x1b[2J\\x9bÿ".encode()
    assert printable(b"\xff") == b"\\xff"
    assert TextLines(is_terminal=True).line(a_message(b"\x1b")) == b"\\x1b\n"
    pretty = TextLines(is_terminal=True, is_pretty=True, has_key=True)
    assert pretty.line(a_message(b'["\\u001b\xc2\x9b"]', key=b"\x1b")) == (
        b'\\x1b\t["\\u001b\\u009b"]\n'
    )


def test_pretty_fits_the_terminal_also_behind_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    message = a_message(b'{"a":1,"b":[2]}', key=b"key")

    assert TextLines(is_pretty=True).line(message) == b'{"a": 1, "b": [2]}\n'
    assert TextLines(is_pretty=True, has_key=True).line(message) == (
        b'key\t{\n  "a": 1,\n  "b": [2]\n}\n'
    )
    assert TextLines(is_pretty=True).line(a_message(b"{no")) == b"{no\n"
    assert TextLines().line(message) == b'{"a":1,"b":[2]}\n'


def test_a_pipe_gets_no_colours() -> None:
    assert terminal_colours() is NO_COLOURS
