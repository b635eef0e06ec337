"""JSON for a person."""

from __future__ import annotations

import json

import pytest

from ottla.cli.consume.pretty_json import TERMINAL_COLOURS, pretty_json

VALUE = b'{"id":7,"tags":["a","b"],"empty":{},"none":[],"ok":true,"x":null}'
INDENTED = """\
{
  "id": 7,
  "tags": ["a", "b"],
  "empty": {},
  "none": [],
  "ok": true,
  "x": null
}"""


def test_on_one_line_where_it_fits_else_indented() -> None:
    line = '{"id": 7, "tags": ["a", "b"], "empty": {}, "none": [], "ok": true, "x": null}'

    assert pretty_json(VALUE, len(line)) == line
    assert pretty_json(VALUE, len(line) - 1) == INDENTED
    assert json.loads(INDENTED) == json.loads(VALUE)
    narrow = pretty_json(VALUE, 17)
    assert narrow is not None
    assert '  "tags": [\n    "a",\n    "b"\n  ],\n' in narrow


@pytest.mark.parametrize("value", [b"", b"7", b'"text"', b"null", b"{", b"[1] x", b"\xff{", b"["])
def test_what_is_no_object_or_array_is_left_alone(value: bytes) -> None:
    assert pretty_json(value, 80) is None


def test_nesting_without_end_is_left_alone() -> None:
    assert pretty_json(b"[" * 1_000_000, 80) is None
    assert pretty_json(b"[" * 5_000 + b"]" * 5_000, 80) in (None, "[" * 5_000 + "]" * 5_000)


def test_numbers_and_names_stay_as_they_were_written() -> None:
    value = b'{"a": 1.10, "a": 12345678901234567890.5, "big": 1e400, "nan": NaN}'

    assert pretty_json(value, 80) == value.decode()


def test_colours_do_not_count_for_the_width() -> None:
    name, string, number, word, end = TERMINAL_COLOURS

    assert pretty_json(b'{"a":["s",1,true]}', 18, TERMINAL_COLOURS) is not None
    assert pretty_json(b'{"a":["s",1,true]}', 21, TERMINAL_COLOURS) == (
        f'{{{name}"a"{end}: [{string}"s"{end}, {number}1{end}, {word}true{end}]}}'
    )


def test_what_cannot_be_printed_is_escaped() -> None:
    assert pretty_json(b'["\\u202e", "\\ud800", "\xc3\xbc"]', 80) == '["\\u202e", "\\ud800", "ü"]'
