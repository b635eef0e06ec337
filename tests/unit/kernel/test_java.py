from __future__ import annotations

import pytest

from ottla.kernel.java import abs_hash, string_hash


# As Java 17 prints them.
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a", 97),
        ("ottla", 106081508),
        ("consumer-group-1", 147483020),
        ("__consumer_offsets", -970371369),
        ("grün", 3185949),
        ("日本語", 25921943),
        ("😀", 1772899),  # Two UTF-16 code units.
        ("a😀b", 57849694),
        ("\ud83d", 55357),  # Half a pair: Java's strings may hold one.
        ("polygenelubricants", -2147483648),
    ],
)
def test_string_hash_is_javas(text: str, expected: int) -> None:
    assert string_hash(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("consumer-group-1", 147483020),
        ("__consumer_offsets", 970371369),
        ("polygenelubricants", 0),  # Math.abs would leave it negative, Kafka's Utils.abs does not.
    ],
)
def test_abs_hash_is_never_negative(text: str, expected: int) -> None:
    assert abs_hash(text) == expected
