from __future__ import annotations

import random

import pytest

from ottla.kernel.ids import TopicPartition
from ottla.storage.file_names import (
    FolderKind,
    file_name,
    parse_folder_name,
    split_file_name,
    suffixed_folder_name,
)


def test_file_names_are_twenty_digits() -> None:
    assert file_name(42, ".log") == "00000000000000000042.log"
    assert split_file_name("00000000000000000042.log") == (42, ".log")
    assert split_file_name("00000000000000000042.log.deleted") == (42, ".log.deleted")


@pytest.mark.parametrize("name", ["42.log", "leader-epoch-checkpoint", "partition.metadata", ""])
def test_other_names_are_not_split(name: str) -> None:
    assert split_file_name(name) is None


@pytest.mark.parametrize(
    ("name", "topic", "partition", "kind"),
    [
        ("events-0", "events", 0, FolderKind.CURRENT),
        ("a-b.c_d-17", "a-b.c_d", 17, FolderKind.CURRENT),
        ("x-delete-3", "x-delete", 3, FolderKind.CURRENT),
        ("events-0.0123456789abcdef-delete", "events", 0, FolderKind.DELETE),
        ("ev.ents-0.0123456789abcdef-future", "ev.ents", 0, FolderKind.FUTURE),
        ("events-1.0123456789abcdef-stray", "events", 1, FolderKind.STRAY),
    ],
)
def test_folder_names(name: str, topic: str, partition: int, kind: FolderKind) -> None:
    assert parse_folder_name(name) == (TopicPartition(topic, partition), kind)


@pytest.mark.parametrize("name", ["lost+found", "events", "events-", "-1", "events-x", "a-\u0663"])
def test_folders_that_are_no_partitions(name: str) -> None:
    assert parse_folder_name(name) is None


def test_a_suffixed_name_is_unique_and_parses_back() -> None:
    rng = random.Random(1)
    partition = TopicPartition("events", 3)
    one = suffixed_folder_name(partition, FolderKind.DELETE, rng)
    other = suffixed_folder_name(partition, FolderKind.DELETE, rng)
    assert one != other
    assert parse_folder_name(one) == (partition, FolderKind.DELETE)


def test_the_longest_topic_name_still_fits_when_suffixed() -> None:
    name = suffixed_folder_name(TopicPartition("t" * 249, 7), FolderKind.DELETE, random.Random(1))
    assert len(name) == 255
    parsed = parse_folder_name(name)
    assert parsed is not None
    assert parsed.kind is FolderKind.DELETE
