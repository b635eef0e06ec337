from __future__ import annotations

import random
import uuid

import pytest

from ottla.kernel.ids import (
    METADATA_TOPIC_ID,
    NO_TOPIC_ID,
    TopicId,
    TopicPartition,
    new_topic_id,
    topic_id_from_text,
    topic_id_text,
)


def test_topic_partition_is_written_as_its_folder() -> None:
    assert str(TopicPartition("page-views", 3)) == "page-views-3"


def test_topic_id_text_is_kafkas() -> None:
    # As org.apache.kafka.common.Uuid prints them.
    assert topic_id_text(NO_TOPIC_ID) == "AAAAAAAAAAAAAAAAAAAAAA"
    assert topic_id_text(METADATA_TOPIC_ID) == "AAAAAAAAAAAAAAAAAAAAAQ"
    topic_id = TopicId(uuid.UUID("f81d4fae-7dec-11d0-a765-00a0c91e6bf6").bytes)
    assert topic_id_text(topic_id) == "-B1Prn3sEdCnZQCgyR5r9g"


def test_topic_id_comes_back_from_its_text() -> None:
    topic_id = new_topic_id(random.Random(1))
    assert topic_id_from_text(topic_id_text(topic_id)) == topic_id


@pytest.mark.parametrize("text", ["", "AAAA", "AAAAAAAAAAAAAAAAAAAAAAAA"])
def test_text_of_another_length_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a topic id"):
        topic_id_from_text(text)


def test_new_topic_ids_are_version_4_and_can_be_arguments() -> None:
    rng = random.Random(7)
    topic_ids = [new_topic_id(rng) for _ in range(1000)]
    assert len(set(topic_ids)) == 1000
    for topic_id in topic_ids:
        assert uuid.UUID(bytes=topic_id).version == 4
        assert not topic_id_text(topic_id).startswith("-")


def test_reserved_ids_and_leading_dashes_are_drawn_again() -> None:
    class Scripted(random.Random):
        draws = iter([b"\xf8" + bytes(15), b"\x01" + bytes(15)])

        def randbytes(self, n: int) -> bytes:
            return next(self.draws)

    assert topic_id_text(TopicId(b"\xf8" + bytes(15))).startswith("-")
    assert new_topic_id(Scripted())[0] == 1
