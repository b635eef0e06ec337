"""How a record looks, by the options given. Those that contradict each other are in
test_command.py."""

from __future__ import annotations

import pytest

from ottla.cli.consume.output_options import Output
from tests.unit.cli.consume.fakes import a_message

MESSAGE = a_message(b'{"a":1}', key=b"k")


@pytest.mark.parametrize(
    ("output", "line"),
    [
        (Output(), b'{"a":1}\n'),
        (Output(pretty=True), b'{"a": 1}\n'),
        (Output(has_key=True), b'k\t{"a":1}\n'),
        (Output(format_string="%k"), b"k"),
    ],
)
def test_in_a_pipe(output: Output, line: bytes) -> None:
    assert output.formatter(has_topic=False)(MESSAGE) == line


def test_json_and_topics() -> None:
    line = Output(as_json=True).formatter(has_topic=False)(MESSAGE)
    assert line.startswith(b'{"topic": "t"')
    assert b" t:0:7\t" in Output(has_meta=True).formatter(has_topic=True)(MESSAGE)
