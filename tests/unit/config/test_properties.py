from __future__ import annotations

import pytest

from ottla.config.properties import PropertiesError, parse_properties


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a=b", {"a": "b"}),
        ("a = b", {"a": "b"}),
        ("a:b", {"a": "b"}),
        ("a b", {"a": "b"}),
        ("a\t:\tb c ", {"a": "b c "}),
        ("  a=b", {"a": "b"}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("a==b", {"a": "=b"}),
        ("a=PLAINTEXT://:9092", {"a": "PLAINTEXT://:9092"}),
        ("# comment\n! comment\n\n   # one more\na=b # not a comment", {"a": "b # not a comment"}),
        ("a=b\nc=d", {"a": "b", "c": "d"}),
        ("a=b\r\nc=d\re=f", {"a": "b", "c": "d", "e": "f"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=b,\\\n   c,\\\n   d", {"a": "b,c,d"}),
        ("a=b\\\n", {"a": "b"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("a=b\\\n#c", {"a": "b#c"}),
        ("# not continued \\\na=b", {"a": "b"}),
        (r"a\=b\:c\ d=e", {"a=b:c d": "e"}),
        (r"a=\t\n\r\f\q\\", {"a": "\t\n\r\fq\\"}),
        (r"a=C:\\logs", {"a": "C:\\logs"}),
        (r"a=\u00e4\u20AC", {"a": "ä€"}),
        (r"a=\ud83d\ude00", {"a": "😀"}),
        ("a=\u2028b", {"a": "\u2028b"}),
    ],
)
def test_text_is_read_as_java_reads_it(text: str, found: dict[str, str]) -> None:
    assert parse_properties(text) == found


def test_bytes_are_utf_8_or_else_latin_1() -> None:
    assert parse_properties("a=ä".encode()) == {"a": "ä"}
    assert parse_properties("\ufeffa=ä".encode()) == {"a": "ä"}
    assert parse_properties("a=ä".encode("latin-1")) == {"a": "ä"}


def test_a_setting_knows_its_line() -> None:
    found = parse_properties("# first\na=1,\\\n  2\n\nb=3\na=4", "my.properties")
    assert found.place_of("b") == "my.properties:5"
    assert found.place_of("a") == "my.properties:6"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a=1\nb=\\u12", r"my\.properties:2: .*four hex digits"),
        ("a=\\u12zz", r"my\.properties:1: "),
        ("a=1\n\n=b", r"my\.properties:3: there is no name"),
    ],
)
def test_an_error_names_file_and_line(text: str, message: str) -> None:
    with pytest.raises(PropertiesError, match=message):
        parse_properties(text, "my.properties")
