from __future__ import annotations

import random

import pytest

from ottla.kernel.ids import new_topic_id, topic_id_text
from ottla.storage.errors import CorruptFile
from ottla.storage.partition_metadata import format_partition_metadata, parse_partition_metadata


def test_there_and_back() -> None:
    topic_id = new_topic_id(random.Random(1))
    content = format_partition_metadata(topic_id)
    assert content == f"version: 0\ntopic_id: {topic_id_text(topic_id)}".encode()
    assert parse_partition_metadata(content) == topic_id
    assert parse_partition_metadata(content + b"\n") == topic_id


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"version: 0\n",
        b"version: x\ntopic_id: AAAA\n",
        b"version: 0\ntopic_id: AAAA\n",
        b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA\n",
        b"\xff\xff",
    ],
)
def test_damage_is_told(content: bytes) -> None:
    with pytest.raises(CorruptFile):
        parse_partition_metadata(content)
