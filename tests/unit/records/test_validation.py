"""The codes are what Apache Kafka 4.3 answered to such bytes, but for what says so."""

from __future__ import annotations

import random
import struct

import pytest

from ottla.config.topic import TopicConfig
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.records.batch import (
    CRC_AT,
    BatchHeader,
    TimestampType,
    compute_crc,
    is_crc_valid,
    parse_header,
)
from ottla.records.builder import build_batch
from ottla.records.compression import Compression
from ottla.records.errors import RecordsRejected
from ottla.records.record import Record, iter_records
from ottla.records.validation import (
    AT_ONCE_BYTES_MAX,
    AT_ONCE_COMPRESSED_BYTES_MAX,
    AT_ONCE_OPENED_BYTES_MAX,
    AT_ONCE_RECORDS_MAX,
    RECORD_ERRORS_MAX,
    RECORDS_INSPECTED_MAX,
    WALKED_BYTES_MIN,
    ProducePolicy,
    TakesLong,
    validate_produced,
)

NOW = 1_700_000_000_000
HOUR = 3_600_000
RECORDS = [Record(0, NOW, b"a", b"v" * 50), Record(1, NOW - 5, None, b"v" * 50)]
LOG_APPEND_TIME = TimestampType.LOG_APPEND_TIME


def validate(
    batch: bytes | bytearray, policy: ProducePolicy | None = None, *, produce_version: int = 12
) -> tuple[memoryview, BatchHeader]:
    return validate_produced(
        memoryview(bytearray(batch)),
        policy or ProducePolicy(),
        now_ms=NOW,
        produce_version=produce_version,
    )


def code_of(
    batch: bytes | bytearray, policy: ProducePolicy | None = None, *, produce_version: int = 12
) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        validate(batch, policy, produce_version=produce_version)
    assert caught.value.message
    return caught.value.code


def patched(
    batch: bytes | bytearray, at: int, format: str, value: int, *, crc: bool = True
) -> bytearray:
    batch = bytearray(batch)
    struct.pack_into(format, batch, at, value)
    if crc:
        struct.pack_into(">I", batch, 17, compute_crc(batch))
    return batch


GOOD = bytes(build_batch(RECORDS))


@pytest.mark.parametrize("compression", Compression)
def test_a_good_batch_is_returned_as_it_is_in_the_same_memory(compression: Compression) -> None:
    buffer = build_batch(
        RECORDS, compression=compression, producer_id=3, producer_epoch=0, base_sequence=5
    )
    sent = bytes(buffer)
    view = memoryview(buffer)
    batch, header = validate_produced(view, ProducePolicy(), now_ms=NOW, produce_version=12)
    assert batch is view
    assert batch == sent
    assert header == parse_header(sent)


def test_what_cannot_be_decompressed_is_refused() -> None:
    garbage = patched(GOOD, 21, ">h", Compression.ZSTD)
    # Kafka says UNKNOWN_SERVER_ERROR.
    assert code_of(garbage) is ErrorCode.INVALID_RECORD
    assert code_of(garbage, ProducePolicy(is_compacted=True)) is ErrorCode.INVALID_RECORD
    validate(garbage, ProducePolicy(checks_lengths=False))


@pytest.mark.parametrize("compression", list(Compression))
@pytest.mark.parametrize("claimed", [1, 3])
def test_records_are_as_many_as_the_header_says(compression: Compression, claimed: int) -> None:
    batch = build_batch(
        [Record(number, NOW, b"k", b"value") for number in range(2)], compression=compression
    )
    batch = patched(patched(batch, 57, ">i", claimed), 23, ">i", claimed - 1)
    assert code_of(batch) is ErrorCode.INVALID_RECORD
    validate(batch, ProducePolicy(checks_lengths=False))


@pytest.mark.parametrize(
    ("record_count", "size", "compression", "takes_long"),
    [
        (AT_ONCE_RECORDS_MAX, 0, Compression.NONE, False),
        (AT_ONCE_RECORDS_MAX + 1, 0, Compression.NONE, True),
        (1, 900_000, Compression.NONE, False),
        (1, AT_ONCE_OPENED_BYTES_MAX - 100, Compression.ZSTD, False),
        (1, AT_ONCE_OPENED_BYTES_MAX, Compression.ZSTD, True),
    ],
)
def test_what_takes_long_is_not_done_at_once(
    record_count: int, size: int, compression: Compression, takes_long: bool
) -> None:
    batch = build_batch(
        [Record(number, NOW, b"", bytes(size)) for number in range(record_count)],
        compression=compression,
    )

    def at_once() -> None:
        validate_produced(
            memoryview(batch), ProducePolicy(), now_ms=NOW, produce_version=12, is_at_once=True
        )

    if takes_long:
        with pytest.raises(TakesLong):
            at_once()
    else:
        at_once()
    validate(batch)


@pytest.mark.parametrize(
    ("compression", "limit_bytes"),
    [(Compression.GZIP, AT_ONCE_COMPRESSED_BYTES_MAX), (Compression.NONE, AT_ONCE_BYTES_MAX)],
)
def test_a_large_batch_is_neither_summed_nor_opened_at_once(
    compression: Compression, limit_bytes: int
) -> None:
    noise = random.Random(1).randbytes(limit_bytes)
    batch = build_batch([Record(0, NOW, None, noise)], compression=compression)
    batch[CRC_AT] ^= 1
    policy = ProducePolicy(max_message_bytes=2 * limit_bytes)
    with pytest.raises(TakesLong):
        validate_produced(
            memoryview(batch), policy, now_ms=NOW, produce_version=12, is_at_once=True
        )


@pytest.mark.parametrize("size", [0, 1, 11, 12, 16, 17, 30, 60, 61, 90])
def test_a_cut_batch_is_no_record_batch(size: int) -> None:
    assert code_of(GOOD[:size]) is ErrorCode.INVALID_RECORD


def test_exactly_one_batch() -> None:
    assert code_of(GOOD + GOOD) is ErrorCode.INVALID_RECORD
    # Kafka cuts such a tail off and acknowledges the rest.
    assert code_of(GOOD + GOOD[:30]) is ErrorCode.INVALID_RECORD
    assert code_of(GOOD + b"\x00") is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("length", [-1, 0, 13, 14, 48, len(GOOD) - 13])
def test_a_length_that_is_wrong_is_corrupt(length: int) -> None:
    assert code_of(patched(GOOD, 8, ">i", length, crc=False)) is ErrorCode.CORRUPT_MESSAGE


def test_a_length_beyond_what_was_sent_is_a_cut_batch() -> None:
    beyond = patched(GOOD, 8, ">i", len(GOOD) - 11, crc=False)
    assert code_of(beyond) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("magic", [0, 1])
def test_old_formats_are_refused_clearly(magic: int) -> None:
    message_v0 = struct.pack(">qiIbbii", 0, 14, 0, magic, 0, -1, -1)
    for batch in (patched(GOOD, 16, ">b", magic, crc=False), message_v0):
        with pytest.raises(KafkaError, match=f"format v{magic} is not supported") as caught:
            validate(batch)
        assert caught.value.code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("magic", [-1, 3])
def test_formats_that_do_not_exist_are_corrupt(magic: int) -> None:
    batch = patched(GOOD, 16, ">b", magic, crc=False)
    assert code_of(batch) is ErrorCode.CORRUPT_MESSAGE


def test_a_wrong_crc_is_corrupt() -> None:
    assert code_of(patched(GOOD, 17, ">I", 5, crc=False)) is ErrorCode.CORRUPT_MESSAGE
    assert code_of(patched(GOOD, 70, ">b", 5, crc=False)) is ErrorCode.CORRUPT_MESSAGE


def test_too_large() -> None:
    validate(GOOD, ProducePolicy(max_message_bytes=len(GOOD)))
    smaller = ProducePolicy(max_message_bytes=len(GOOD) - 1)
    assert code_of(GOOD, smaller) is ErrorCode.MESSAGE_TOO_LARGE


def test_a_client_counts_offsets_from_zero() -> None:
    assert code_of(patched(GOOD, 0, ">q", 5, crc=False)) is ErrorCode.INVALID_RECORD


def test_the_leader_epoch_a_client_sends_does_not_matter() -> None:
    validate(patched(GOOD, 12, ">i", 5, crc=False))


@pytest.mark.parametrize(
    ("last_offset_delta", "record_count"),
    [(1, 0), (1, -1), (1, 3), (0, 2), (-1, 2), (-1, 0), (2**31 - 2, 2**31 - 1)],
)
def test_count_and_offsets_agree(last_offset_delta: int, record_count: int) -> None:
    batch = patched(GOOD, 23, ">i", last_offset_delta)
    assert code_of(patched(batch, 57, ">i", record_count)) is ErrorCode.INVALID_RECORD


def test_no_count_may_leap_over_the_offsets_that_a_segment_can_index() -> None:
    batch = patched(build_batch(RECORDS, compression=Compression.GZIP), 23, ">i", 2**31 - 2)
    assert code_of(patched(batch, 57, ">i", 2**31 - 1)) is ErrorCode.INVALID_RECORD


def test_clients_write_no_control_records() -> None:
    control = build_batch(
        RECORDS[:1], is_control=True, producer_id=1, producer_epoch=0, base_sequence=0
    )
    assert code_of(control) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("compression", [5, 6, 7])
def test_unknown_compression(compression: int) -> None:
    # Kafka says UNKNOWN_SERVER_ERROR.
    batch = patched(GOOD, 21, ">h", compression)
    assert code_of(batch) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_zstd_came_with_produce_7() -> None:
    batch = build_batch(RECORDS, compression=Compression.ZSTD)
    validate(batch, produce_version=7)
    assert code_of(batch, produce_version=6) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    validate(build_batch(RECORDS, compression=Compression.LZ4), produce_version=3)


def test_a_producer_id_comes_with_epoch_and_sequence() -> None:
    assert code_of(build_batch(RECORDS, producer_id=5, producer_epoch=0)) is (
        ErrorCode.INVALID_RECORD
    )
    # Kafka takes this one, as the first of a producer whose epoch is -1, which none has.
    assert code_of(build_batch(RECORDS, producer_id=5, base_sequence=0)) is (
        ErrorCode.INVALID_RECORD
    )
    # Kafka finds the transactional id missing before it comes to this.
    assert code_of(build_batch(RECORDS, is_transactional=True)) is ErrorCode.INVALID_RECORD


def test_a_timestamp_too_far_ahead_names_its_records() -> None:
    records = [Record(0, NOW, None, b""), Record(1, NOW + HOUR + 1, None, b"")]
    with pytest.raises(RecordsRejected) as caught:
        validate(build_batch(records))
    assert caught.value.code is ErrorCode.INVALID_TIMESTAMP
    assert [error.batch_index for error in caught.value.record_errors] == [1]
    validate(build_batch([Record(0, NOW + HOUR, None, b"")]))


@pytest.mark.parametrize("timestamp", [-7, -1, 0])
def test_old_and_missing_timestamps_are_fine_by_default(timestamp: int) -> None:
    validate(build_batch([Record(0, timestamp, None, b"")]))


def test_a_header_that_lies_about_the_future_is_put_right() -> None:
    batch, header = validate(patched(GOOD, 35, ">q", NOW + 2 * HOUR))
    assert batch == GOOD
    assert header == parse_header(GOOD)


def test_timestamps_too_old() -> None:
    policy = ProducePolicy(timestamp_before_max_ms=1000)
    records = [Record(0, NOW - 1001, None, b""), Record(1, NOW - 1000, None, b"")]
    with pytest.raises(RecordsRejected) as caught:
        validate(build_batch(records, compression=Compression.SNAPPY), policy)
    assert caught.value.code is ErrorCode.INVALID_TIMESTAMP
    assert [error.batch_index for error in caught.value.record_errors] == [0]
    validate(build_batch([Record(0, NOW - 1000, None, b"")]), policy)
    validate(build_batch([Record(0, -1, None, b"")]), policy)


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP])
def test_compacted_topics_need_keys(compression: Compression) -> None:
    policy = ProducePolicy(is_compacted=True)
    with pytest.raises(RecordsRejected) as caught:
        validate(build_batch(RECORDS, compression=compression), policy)
    assert caught.value.code is ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in caught.value.record_errors] == [1]
    keyed = build_batch([Record(0, NOW, b"", None)], compression=compression)
    assert validate(keyed, policy)[0] == keyed


def test_a_bad_timestamp_outweighs_a_missing_key() -> None:
    records = [Record(0, NOW, None, b""), Record(1, NOW + 2 * HOUR, b"k", b"")]
    with pytest.raises(RecordsRejected) as caught:
        validate(build_batch(records), ProducePolicy(is_compacted=True))
    assert caught.value.code is ErrorCode.INVALID_TIMESTAMP
    assert [error.batch_index for error in caught.value.record_errors] == [0, 1]


def test_the_list_of_bad_records_is_bounded() -> None:
    records = [Record(offset, NOW, None, b"") for offset in range(RECORD_ERRORS_MAX + 5)]
    with pytest.raises(RecordsRejected) as caught:
        validate(build_batch(records), ProducePolicy(is_compacted=True))
    assert len(caught.value.record_errors) == RECORD_ERRORS_MAX


def test_log_append_time() -> None:
    policy = ProducePolicy(is_log_append_time=True)
    batch, header = validate(build_batch([Record(0, NOW + 9 * HOUR, None, b"x")]), policy)
    assert header == parse_header(batch)
    assert header.timestamp_type is LOG_APPEND_TIME
    assert (header.base_timestamp, header.max_timestamp) == (NOW + 9 * HOUR, NOW)
    assert is_crc_valid(batch)
    assert [record.timestamp for record in iter_records(batch)] == [NOW]


def test_only_a_broker_sets_log_append_time() -> None:
    marked = build_batch(RECORDS, timestamp_type=LOG_APPEND_TIME)
    policy = ProducePolicy(is_log_append_time=True)
    assert code_of(marked, policy) is ErrorCode.INVALID_TIMESTAMP
    assert code_of(patched(marked, 35, ">q", -1)) is ErrorCode.INVALID_TIMESTAMP
    batch, header = validate(marked)
    assert header.timestamp_type is TimestampType.CREATE_TIME
    assert batch == GOOD


@pytest.mark.parametrize("source", Compression)
@pytest.mark.parametrize("target", Compression)
def test_a_topic_with_a_compression_of_its_own(source: Compression, target: Compression) -> None:
    policy = ProducePolicy(target_compression=target)
    sent = build_batch(RECORDS, compression=source)
    batch, header = validate(sent, policy)
    assert header == parse_header(batch)
    assert header.compression == target
    assert is_crc_valid(batch)
    assert list(iter_records(batch)) == RECORDS
    assert not batch.readonly, "the log patches offsets into it"
    if source is target:
        assert batch == sent


def test_recompressed_with_log_append_time() -> None:
    policy = ProducePolicy(target_compression=Compression.GZIP, is_log_append_time=True)
    batch, header = validate(GOOD, policy)
    assert (header.compression, header.timestamp_type) == (Compression.GZIP, LOG_APPEND_TIME)
    assert is_crc_valid(batch)
    assert {record.timestamp for record in iter_records(batch)} == {NOW}


def test_what_grows_by_recompression_must_fit_too() -> None:
    sent = build_batch([Record(0, NOW, None, bytes(10_000))], compression=Compression.ZSTD)
    policy = ProducePolicy(max_message_bytes=5_000, target_compression=Compression.NONE)
    assert code_of(sent, policy) is ErrorCode.MESSAGE_TOO_LARGE


def test_what_cannot_be_recompressed_is_invalid() -> None:
    # Kafka says UNKNOWN_SERVER_ERROR.
    garbage = patched(GOOD, 21, ">h", Compression.LZ4)
    policy = ProducePolicy(target_compression=Compression.GZIP)
    assert code_of(garbage, policy) is ErrorCode.INVALID_RECORD


def test_batches_that_are_opened_have_a_limit() -> None:
    """Kafka has none."""
    bomb = build_batch([Record(0, NOW, b"k", bytes(500_000))], compression=Compression.ZSTD)
    for policy in (
        ProducePolicy(max_message_bytes=20_000, is_compacted=True),
        ProducePolicy(max_message_bytes=20_000, target_compression=Compression.GZIP),
    ):
        assert code_of(bomb, policy) is ErrorCode.MESSAGE_TOO_LARGE
    validate(bomb, ProducePolicy(max_message_bytes=20_000))
    large = build_batch(
        [Record(0, NOW, b"k", bytes(WALKED_BYTES_MIN))], compression=Compression.ZSTD
    )
    assert code_of(large) is ErrorCode.MESSAGE_TOO_LARGE
    validate(bomb, ProducePolicy(max_message_bytes=40_000, is_compacted=True))


def test_batches_that_are_opened_have_a_limited_count_of_records() -> None:
    """Kafka has none."""
    record_count = RECORDS_INSPECTED_MAX + 1
    many = build_batch(
        [Record(offset, NOW, b"k", b"") for offset in range(record_count)],
        compression=Compression.LZ4,
    )
    assert validate(many)[1].record_count == record_count
    assert code_of(many, ProducePolicy(is_compacted=True)) is ErrorCode.MESSAGE_TOO_LARGE
    too_new = ProducePolicy(timestamp_after_max_ms=-1)
    assert code_of(many, too_new) is ErrorCode.INVALID_TIMESTAMP


def parts(policy: ProducePolicy) -> dict[str, object]:
    return {name: getattr(policy, name) for name in ProducePolicy.__slots__}


def test_the_policy_of_a_topic_by_default() -> None:
    policy = ProducePolicy.of(TopicConfig())
    assert parts(policy) == parts(ProducePolicy())
    assert policy.is_plain


@pytest.mark.parametrize(
    ("config", "policy"),
    [
        (TopicConfig(compression_type="uncompressed"), ProducePolicy(
            target_compression=Compression.NONE)),
        (TopicConfig(compression_type="snappy"), ProducePolicy(
            target_compression=Compression.SNAPPY)),
        (TopicConfig(compression_type="gzip", compression_gzip_level=4), ProducePolicy(
            target_compression=Compression.GZIP, compression_level=4)),
        (TopicConfig(compression_type="lz4", compression_lz4_level=5), ProducePolicy(
            target_compression=Compression.LZ4, compression_level=5)),
        (TopicConfig(compression_type="zstd", compression_zstd_level=6), ProducePolicy(
            target_compression=Compression.ZSTD, compression_level=6)),
        (TopicConfig(cleanup_policy=("compact", "delete")), ProducePolicy(is_compacted=True)),
        (TopicConfig(message_timestamp_type="LogAppendTime"), ProducePolicy(
            is_log_append_time=True)),
        (TopicConfig(message_timestamp_before_max_ms=5), ProducePolicy(timestamp_before_max_ms=5)),
        (TopicConfig(message_timestamp_after_max_ms=5), ProducePolicy(timestamp_after_max_ms=5)),
        (TopicConfig(max_message_bytes=5), ProducePolicy(max_message_bytes=5)),
    ],
)  # fmt: skip
def test_the_policy_of_a_topic(config: TopicConfig, policy: ProducePolicy) -> None:
    assert parts(ProducePolicy.of(config)) == parts(policy)
