"""Reading and checking the files of a log."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from ottla.cli.log_files import Entry, Problem, dump_file
from ottla.records.batch import CRC_AT
from ottla.records.builder import build_batch
from ottla.records.compression import Compression
from ottla.records.record import Record
from ottla.storage.producer_entry import BatchMetadata, ProducerEntry
from ottla.storage.producer_snapshot import encode_snapshot

TIME = 1_700_000_000_000
LOG = "00000000000000000100.log"
INDEX = "00000000000000000100.index"
TIME_INDEX = "00000000000000000100.timeindex"


def batch(first_offset: int, count: int = 2, **options: Any) -> bytes:
    records = [
        Record(first_offset + n, TIME + first_offset + n, b"k%d" % n, b"v", (("h", None),))
        for n in range(count)
    ]
    return bytes(build_batch(records, leader_epoch=4, **options))


def segment(folder: Path) -> list[bytes]:
    batches = [batch(100), batch(102, 3, compression=Compression.ZSTD), batch(110)]
    (folder / LOG).write_bytes(b"".join(batches))
    return batches


def dump(path: Path, *, with_records: bool = False) -> tuple[list[Entry], list[str]]:
    found = dump_file(str(path), with_records=with_records)
    assert found is not None
    items = list(found)
    return (
        [item for item in items if isinstance(item, Entry)],
        [item.text for item in items if isinstance(item, Problem)],
    )


def test_batches(tmp_path: Path) -> None:
    batches = segment(tmp_path)

    entries, problems = dump(tmp_path / LOG)

    assert problems == []
    assert [entry.fields["position"] for entry in entries] == [
        0,
        len(batches[0]),
        len(batches[0]) + len(batches[1]),
    ]
    second = entries[1].fields
    assert (second["base_offset"], second["last_offset"], second["count"]) == (102, 104, 3)
    assert (second["compression"], second["partition_leader_epoch"]) == ("zstd", 4)
    assert (second["max_timestamp"], second["timestamp_type"]) == (TIME + 104, "create")
    assert second["is_valid"] is True


def test_records(tmp_path: Path) -> None:
    segment(tmp_path)

    entries, problems = dump(tmp_path / LOG, with_records=True)

    assert problems == []
    records = [entry.fields for entry in entries if entry.kind == "record"]
    assert [record["offset"] for record in records] == [100, 101, 102, 103, 104, 110, 111]
    assert records[3] == {
        "offset": 103,
        "timestamp": TIME + 103,
        "key": b"k1",
        "value": b"v",
        "headers": (("h", None),),
    }


def test_a_marker_is_named(tmp_path: Path) -> None:
    marker = Record(100, TIME, struct.pack(">hh", 0, 1), struct.pack(">hi", 0, 5))
    (tmp_path / LOG).write_bytes(
        build_batch([marker], producer_id=5, is_transactional=True, is_control=True)
    )

    entries, problems = dump(tmp_path / LOG, with_records=True)

    assert problems == []
    assert entries[0].fields["is_control"] is True
    assert entries[1].fields["control"] == "commit"


def test_zeros_at_the_end_are_what_preallocate_left(tmp_path: Path) -> None:
    batches = segment(tmp_path)
    (tmp_path / LOG).write_bytes(b"".join(batches) + bytes(5000))

    entries, problems = dump(tmp_path / LOG)

    assert (len(entries), problems) == (3, [])


def test_a_flipped_bit_is_found(tmp_path: Path) -> None:
    batches = segment(tmp_path)
    content = bytearray(b"".join(batches))
    content[len(batches[0]) + 70] ^= 1
    (tmp_path / LOG).write_bytes(content)

    entries, problems = dump(tmp_path / LOG, with_records=True)

    assert [entry.fields["is_valid"] for entry in entries if entry.kind == "batch"] == [
        True,
        False,
        True,
    ]
    assert problems == [
        f"the batch at position {len(batches[0])} does not have the CRC that it claims"
    ]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (batch(100)[:-1], "the batch at position 0 is cut off"),
        (batch(100) + b"\x01" * 20, "20 bytes at position"),
        (batch(100) + b"\x01" * 80, "there is no batch of format 2 at position"),
        (batch(99), "must not be below 100"),
        (batch(102) + batch(100), "must not be below 104"),
    ],
)
def test_a_broken_log(tmp_path: Path, content: bytes, problem: str) -> None:
    (tmp_path / LOG).write_bytes(content)

    _, problems = dump(tmp_path / LOG)

    assert len(problems) == 1
    assert problem in problems[0]


def test_a_count_that_is_not_true_is_found(tmp_path: Path) -> None:
    import crc32c

    content = bytearray(batch(100))
    struct.pack_into(">i", content, 57, 5)
    struct.pack_into(">I", content, CRC_AT, crc32c.crc32c(content[CRC_AT + 4 :]))
    (tmp_path / LOG).write_bytes(content)

    assert dump(tmp_path / LOG)[1] == []
    assert len(dump(tmp_path / LOG, with_records=True)[1]) == 1


def test_an_index_that_points_at_batches(tmp_path: Path) -> None:
    first, second, _ = segment(tmp_path)
    entries = struct.pack(">IIII", 4, len(first), 11, len(first) + len(second))
    # Kafka's index of an active segment has its full size at once.
    (tmp_path / INDEX).write_bytes(entries + bytes(80))

    found, problems = dump(tmp_path / INDEX)

    assert problems == []
    assert [entry.fields for entry in found] == [
        {"offset": 104, "position": len(first)},
        {"offset": 111, "position": len(first) + len(second)},
    ]


@pytest.mark.parametrize(
    ("entries", "problem"),
    [
        ([(4, 7)], "no batch begins at position 7"),
        ([(1, 0), (1, 0)], "does not come after"),
        ([(9, 0)], "ends with offset 101, but the index says 109"),
    ],
)
def test_a_wrong_index(tmp_path: Path, entries: list[tuple[int, int]], problem: str) -> None:
    segment(tmp_path)
    (tmp_path / INDEX).write_bytes(b"".join(struct.pack(">II", *entry) for entry in entries))

    _, problems = dump(tmp_path / INDEX)

    assert len(problems) == 1
    assert problem in problems[0]


def test_an_index_without_its_log_can_not_be_checked(tmp_path: Path) -> None:
    (tmp_path / INDEX).write_bytes(struct.pack(">II", 1, 0) + b"\x00")

    entries, problems = dump(tmp_path / INDEX)

    assert len(entries) == 1
    assert problems == [
        "9 bytes are no whole number of entries of 8",
        f"it can't be checked: {LOG} is not beside it",
    ]


def test_a_time_index(tmp_path: Path) -> None:
    segment(tmp_path)
    (tmp_path / TIME_INDEX).write_bytes(
        struct.pack(">qIqI", TIME + 104, 4, TIME + 111, 11) + bytes(24)
    )

    entries, problems = dump(tmp_path / TIME_INDEX)

    assert problems == []
    assert [entry.fields for entry in entries] == [
        {"timestamp": TIME + 104, "offset": 104},
        {"timestamp": TIME + 111, "offset": 111},
    ]


@pytest.mark.parametrize(
    ("entries", "problem"),
    [
        ([(TIME + 9, 4)], f"the largest timestamp is {TIME + 104}, but the index says {TIME + 9}"),
        ([(TIME + 111, 11), (TIME + 104, 4)], "does not come after"),
        ([(TIME + 111, 50)], "no batch holds offset 150"),
    ],
)
def test_a_wrong_time_index(tmp_path: Path, entries: list[tuple[int, int]], problem: str) -> None:
    segment(tmp_path)
    (tmp_path / TIME_INDEX).write_bytes(b"".join(struct.pack(">qI", *entry) for entry in entries))

    _, problems = dump(tmp_path / TIME_INDEX)

    assert len(problems) == 1
    assert problem in problems[0]


def test_a_transaction_index(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000100.txnindex"
    path.write_bytes(struct.pack(">hqqqq", 0, 7, 100, 104, 105))

    entries, problems = dump(path)

    assert problems == []
    assert entries[0].fields["producer_id"] == 7
    assert entries[0].fields["last_stable_offset"] == 105


def test_a_snapshot(tmp_path: Path) -> None:
    producer = ProducerEntry(7, 1)
    producer.add(1, BatchMetadata(last_sequence=9, last_offset=104, offset_delta=4, timestamp=TIME))
    path = tmp_path / "00000000000000000105.snapshot"
    content = encode_snapshot([producer])
    path.write_bytes(content)

    entries, problems = dump(path)

    assert problems == []
    assert entries[0].fields["last_sequence"] == 9
    path.write_bytes(content[:-1] + b"\x07")
    assert dump(path) == ([], ["the CRC of a producer snapshot does not match"])


@pytest.mark.parametrize(
    ("name", "content", "fields"),
    [
        ("leader-epoch-checkpoint", "0\n1\n3 100\n", {"epoch": 3, "start_offset": 100}),
        (
            "recovery-point-offset-checkpoint",
            "0\n1\nclicks 2 50\n",
            {"topic": "clicks", "partition": 2, "offset": 50},
        ),
        (
            "partition.metadata",
            "version: 0\ntopic_id: 7JO3cf3JQ_2lb892qbSYwQ",
            {"topic_id": "7JO3cf3JQ_2lb892qbSYwQ"},
        ),
        ("meta.properties", "#x\nnode.id=1\n", {"name": "node.id", "value": "1"}),
    ],
)
def test_small_files(tmp_path: Path, name: str, content: str, fields: dict[str, object]) -> None:
    (tmp_path / name).write_text(content)

    entries, problems = dump(tmp_path / name)

    assert problems == []
    assert [entry.fields for entry in entries] == [fields]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("leader-epoch-checkpoint", "0\n2\n3 100\n"),
        ("recovery-point-offset-checkpoint", "0\n1\nclicks x 50\n"),
        ("partition.metadata", "hello"),
        ("meta.properties", "=1\n"),
    ],
)
def test_small_files_that_are_broken(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content)

    entries, problems = dump(tmp_path / name)

    assert entries == []
    assert len(problems) == 1


@pytest.mark.parametrize(
    "name", ["notes.txt", "00000000000000000100.log.deleted", ".lock", "1.log"]
)
def test_other_files_are_none_of_a_log(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"")

    assert dump_file(str(tmp_path / name)) is None
