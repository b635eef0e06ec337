from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.kernel.errors import KafkaError
from ottla.records import control
from ottla.records.batch import (
    ATTRIBUTES_AT,
    HEADER_BYTES,
    RECORD_COUNT_AT,
    is_crc_valid,
    parse_header,
)
from ottla.records.builder import ControlType, build_batch, build_end_txn_marker
from ottla.records.compression import Compression
from ottla.records.control import EndTxnMarker, parse_end_txn_marker
from ottla.records.record import Record

# What `MemoryRecords.withEndTransactionMarker` of Apache Kafka 4.3 writes at offset 8, in leader
# epoch 3, for producer 4000 with epoch 2, by a coordinator of epoch 6.
KAFKAS = {
    ControlType.ABORT: (
        "0000000000000008000000420000000302047e38be0030000000000000018bcfe568000000018bcfe56800"
        "0000000000000fa00002ffffffff000000012000000008000000000c00000000000600"
    ),
    ControlType.COMMIT: (
        "0000000000000008000000420000000302f040eef60030000000000000018bcfe568000000018bcfe56800"
        "0000000000000fa00002ffffffff000000012000000008000000010c00000000000600"
    ),
}


def batch_of(
    key: bytes | None,
    value: bytes | None,
    *,
    is_transactional: bool = True,
    is_control: bool = True,
) -> bytearray:
    return build_batch(
        [Record(8, 5, key, value)],
        producer_id=4,
        producer_epoch=2,
        is_transactional=is_transactional,
        is_control=is_control,
    )


KEY = struct.pack(">hh", 0, 1)
VALUE = struct.pack(">hi", 0, 6)


@pytest.mark.parametrize("type", ControlType)
def test_kafkas_bytes_are_written_and_read(type: ControlType) -> None:
    written = build_end_txn_marker(
        type,
        offset=8,
        timestamp=1_700_000_000_000,
        producer_id=4000,
        producer_epoch=2,
        coordinator_epoch=6,
        leader_epoch=3,
    )
    kafkas = bytes.fromhex(KAFKAS[type])

    assert bytes(written) == kafkas
    marker = parse_end_txn_marker(kafkas)
    assert marker == EndTxnMarker(type, 6)
    assert marker is not None
    assert marker.is_commit == (type is ControlType.COMMIT)


@given(
    type=st.sampled_from(ControlType),
    offset=st.integers(0, 2**62),
    timestamp=st.integers(-1, 2**62),
    producer_id=st.integers(0, 2**62),
    producer_epoch=st.integers(0, 2**15 - 1),
    coordinator_epoch=st.integers(-1, 2**31 - 1),
)
def test_any_marker_is_read_as_it_was_written(
    type: ControlType,
    offset: int,
    timestamp: int,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
) -> None:
    batch = build_end_txn_marker(
        type,
        offset=offset,
        timestamp=timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        coordinator_epoch=coordinator_epoch,
    )
    header = parse_header(batch)

    assert is_crc_valid(batch)
    assert parse_end_txn_marker(batch) == EndTxnMarker(type, coordinator_epoch)
    assert (header.base_offset, header.last_offset_delta, header.record_count) == (offset, 0, 1)
    assert (header.producer_id, header.producer_epoch) == (producer_id, producer_epoch)
    assert header.max_timestamp == timestamp


def test_newer_versions_are_read_as_far_as_they_are_known() -> None:
    batch = batch_of(struct.pack(">hh", 1, 0) + b"more", struct.pack(">hi", 1, 9) + b"more")

    assert parse_end_txn_marker(batch) == EndTxnMarker(ControlType.ABORT, 9)


def test_an_emptied_batch_has_no_marker() -> None:
    batch = batch_of(KEY, VALUE)[:HEADER_BYTES]
    struct.pack_into(">i", batch, RECORD_COUNT_AT, 0)
    struct.pack_into(">i", batch, 8, HEADER_BYTES - 12)

    assert parse_end_txn_marker(batch) is None


@pytest.mark.parametrize(
    ("batch", "problem"),
    [
        (batch_of(KEY, VALUE, is_control=False), "no transaction marker"),
        (batch_of(KEY, VALUE, is_transactional=False), "no transaction marker"),
        (batch_of(None, VALUE), "cut off"),
        (batch_of(KEY[:3], VALUE), "cut off"),
        (batch_of(KEY, None), "cut off"),
        (batch_of(KEY, VALUE[:5]), "cut off"),
        (batch_of(struct.pack(">hh", -1, 1), VALUE), "versions -1 of its key"),
        (batch_of(KEY, struct.pack(">hi", -1, 6)), "-1 of its value"),
        (batch_of(struct.pack(">hh", 0, 2), VALUE), "type 2, which ends no transaction"),
        (
            build_batch([Record(8, 5, KEY, VALUE)] * 2, is_transactional=True, is_control=True),
            "2 records",
        ),
        (
            build_batch(
                [Record(8, 5, KEY, bytes(1 << 20))],
                compression=Compression.GZIP,
                is_transactional=True,
                is_control=True,
            ),
            "4096",
        ),
        (b"", "61 bytes"),
    ],
)
def test_what_is_no_marker_is_refused(batch: bytes, problem: str) -> None:
    with pytest.raises(KafkaError, match=problem):
        parse_end_txn_marker(batch)


@given(st.binary(max_size=40), st.integers(0, 77))
def test_damaged_markers_are_refused_or_read(damage: bytes, position: int) -> None:
    whole = bytes.fromhex(KAFKAS[ControlType.COMMIT])
    batch = (whole[:position] + damage + whole[position + len(damage) :])[: len(whole)]

    try:
        marker = parse_end_txn_marker(batch)
    except KafkaError:
        return
    assert marker is None or marker.type in ControlType


def test_the_quick_way_reads_what_the_long_one_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever byte of a marker is another one."""
    usual = bytes.fromhex(KAFKAS[ControlType.COMMIT])
    changed = [
        usual[:at] + bytes((usual[at] ^ bit,)) + usual[at + 1 :]
        for at in range(ATTRIBUTES_AT, len(usual))
        for bit in (1, 2, 8, 0x10, 0x20, 0x80)
    ]
    quick = [read(batch) for batch in (usual, *changed)]
    monkeypatch.setattr(control, "_parse_usual", lambda batch: None)
    assert quick == [read(batch) for batch in (usual, *changed)]


def read(batch: bytes) -> EndTxnMarker | str | None:
    try:
        return parse_end_txn_marker(batch)
    except KafkaError as error:
        return str(error)
