"""Records as lines of JSON."""

from __future__ import annotations

import json

import pytest

from ottla.cli.json_records import BadRecord, InputRecord, bytes_field, parse_record


def test_text_stands_as_text_and_other_bytes_as_base64() -> None:
    assert bytes_field("key", None) == {"key": None}
    assert bytes_field("key", b"") == {"key": ""}
    assert bytes_field("value", "ünï".encode()) == {"value": "ünï"}
    assert bytes_field("value", b"\xff\x00") == {"value_base64": "/wA="}


def test_a_line_that_consume_wrote_is_the_same_record() -> None:
    line = json.dumps(
        {
            "topic": "t",
            "partition": 3,
            "offset": 12,
            "timestamp": 1_700_000_000_000,
            "timestamp_type": "create",
            **bytes_field("key", b"\xff"),
            **bytes_field("value", "ünï".encode()),
            "headers": [
                {"key": "a", **bytes_field("value", b"1")},
                {"key": "a", **bytes_field("value", None)},
                {"key": "b", **bytes_field("value", b"\xfe")},
            ],
        }
    )

    assert parse_record(line.encode()) == InputRecord(
        value="ünï".encode(),
        key=b"\xff",
        headers=(("a", b"1"), ("a", None), ("b", b"\xfe")),
        partition=3,
        timestamp=1_700_000_000_000,
    )


def test_everything_may_be_left_out() -> None:
    assert parse_record(b"{}") == InputRecord(value=None)


def test_a_value_may_be_json_and_headers_an_object() -> None:
    record = parse_record(b'{"value": {"x": [1, "y"]}, "headers": {"a": "b", "n": 1}}')

    assert record.value == b'{"x":[1,"y"]}'
    assert record.headers == (("a", b"b"), ("n", b"1"))


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"hello", "no JSON"),
        (b'"hello"', "no JSON object"),
        (b'{"valu": 1}', "unknown field 'valu'"),
        (b'{"value_base64": "*"}', "value_base64 is not base64"),
        (b'{"value_base64": 1}', "value_base64 is not base64"),
        (b'{"partition": "1"}', "partition is no number"),
        (b'{"partition": true}', "partition is no number"),
        (b'{"timestamp": -1}', "timestamp is no number"),
        (b'{"headers": 1}', "headers is neither"),
        (b'{"headers": [1]}', "a header is no"),
        (b'{"headers": [{"value": "x"}]}', "a header is no"),
        (b"\xff", "no JSON"),
    ],
)
def test_a_bad_line_says_why(line: bytes, reason: str) -> None:
    with pytest.raises(BadRecord, match=reason.replace("(", r"\(")):
        parse_record(line)
