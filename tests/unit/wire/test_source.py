from __future__ import annotations

import struct

from ottla.wire.source import Source, snake_case


def test_lines_are_indented_by_blocks() -> None:
    source = Source()
    with source.block("def add(a, b):"):
        with source.block("if b:"):
            source.line("return a + b")
        source.line("return a")

    assert source.text() == ("def add(a, b):\n    if b:\n        return a + b\n    return a\n")
    assert source.compile("add", "<add>")(1, 2) == 3


def test_structs_are_made_once_and_named_by_their_format() -> None:
    source = Source()

    assert source.struct_method("unpack_from", "h?16s") == "unpack_ho16s"
    assert source.struct_method("pack", "ix") == "pack_ix"
    made = source.names["pack_ix"]
    source.struct_method("pack", "ix")
    assert source.names["pack_ix"] is made
    assert made(1) == struct.pack(">ix", 1)


def test_constants_that_are_not_literals_never_share_a_name() -> None:
    source = Source()
    one, other = object(), object()

    assert source.constant("default_a", -1) == "-1"
    assert source.constant("default_a", None) == "None"
    first = source.constant("default_a", one)
    second = source.constant("default_a", other)
    assert source.names[first] is one
    assert source.names[second] is other
    assert source.constant("default_a", one) == first


def test_snake_case() -> None:
    assert snake_case("TopicProduceData") == "topic_produce_data"
    assert snake_case("Coordinator") == "coordinator"
