"""The table is in Delta's protocol ("Partition Value Serialization"); folders are Hive's."""

from __future__ import annotations

import datetime

import pytest

from ottla.pipeline.lake.partition_values import PartitionValue, folder, to_text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a/b", "a/b"),
        (-7, "-7"),
        (True, "true"),
        (False, "false"),
        (datetime.date(2026, 1, 9), "2026-01-09"),
        (None, None),
        ("", None),
    ],
)
def test_values_are_texts_in_the_log(value: PartitionValue, text: str | None) -> None:
    assert to_text(value) == text


def test_folders_escape_what_hive_does_and_more() -> None:
    assert folder({}) == ""
    assert folder({"day": "2026-01-01", "service": None}) == (
        "day=2026-01-01/service=__HIVE_DEFAULT_PARTITION__"
    )
    assert folder({"s": "a/b=c 100%?#'\"*:\\{[]^\t\x7f"}) == (
        "s=a%2Fb%3Dc%20100%25%3F%23%27%22%2A%3A%5C%7B%5B%5D%5E%09%7F"
    )
    assert folder({"größe": "日本}~|"}) == "größe=日本%7D%7E%7C"
