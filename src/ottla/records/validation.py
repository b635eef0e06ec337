"""What a broker checks before it appends what a client has produced.

The common case costs one unpack, some comparisons, the CRC, and a walk over the lengths of the
records (`lengths.py`), for which a compressed batch is opened. Records are read whole only where
the topic's configuration cannot be kept otherwise: a compacted topic (every record has a key),
`message.timestamp.before.max.ms`, or a batch whose newest timestamp is too far in the future, of
which the client wants to know which records.

Apache Kafka reads every record. So it also rewrites a batch whose header states another maximal
timestamp than its records have; here such a batch is stored as it came. To read the timestamps
takes twice as long as the lengths alone, and would bring a million records of 100 bytes to 0.65 s
of processor time, where Kafka takes about 1 s and the aim is 0.6 of that.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.workers import giving_way
from ottla.records.batch import (
    ATTRIBUTES_AT,
    COMPRESSION_MASK,
    CONTROL_FLAG,
    HEADER_BYTES,
    HEADER_STRUCT,
    LENGTH_AT,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    MAGIC_AT,
    NO_TIMESTAMP,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    TimestampType,
    batch_size,
    is_crc_valid,
    parse_header,
    patch_max_timestamp,
)
from ottla.records.builder import recompress
from ottla.records.compression import Compression
from ottla.records.crc import crc32c
from ottla.records.errors import CorruptRecord, NotOneBatch, RecordError, RecordsRejected
from ottla.records.lengths import check_lengths
from ottla.records.record import (
    DECOMPRESSED_BYTES_MAX,
    RECORD_BYTES_MIN,
    iter_records,
    records_data,
)

if TYPE_CHECKING:
    from ottla.config.topic import TopicConfig

INT64_MAX = (1 << 63) - 1
ZSTD_PRODUCE_VERSION_MIN = 7
RECORD_ERRORS_MAX = 1000
"""A batch of a megabyte can hold millions of records. The client drops what is listed and may
send the rest again, so a cut list costs it another round, and us a response of bounded size."""

RECORDS_INSPECTED_MAX = 50_000
"""How many records of one batch are looked at: about a tenth of a second. No client comes near
it by default (librdkafka puts 10,000 into a batch). MESSAGE_TOO_LARGE makes Java split it."""
INFLATION_MAX = 16
"""How many times `max.message.bytes` a batch that must be opened may decompress to. Without it a
few kilobytes could stop the broker for as long as it takes to decompress gigabytes."""
WALKED_BYTES_MIN = 32 * 1024 * 1024
"""What a batch may decompress to, at least, where only the lengths of its records are looked at.
Kafka has no limit. MESSAGE_TOO_LARGE makes Java split the batch."""

AT_ONCE_RECORDS_MAX = 8192
AT_ONCE_BYTES_MAX = 2 * 1024 * 1024
AT_ONCE_COMPRESSED_BYTES_MAX = 16 * 1024
AT_ONCE_OPENED_BYTES_MAX = 512 * 1024
"""What is checked where it arrived, in about a millisecond: more than that is for a thread."""


class TakesLong(Exception):
    """To check this batch would hold up the loop."""


_unpack_header = HEADER_STRUCT.unpack_from
_crc = crc32c
_new_tuple = tuple.__new__
_COMPRESSION_ID_MAX = int(Compression.ZSTD)
_ZSTD_ID = int(Compression.ZSTD)
_LENGTH_MIN = 14
"""Of the smallest message of the oldest format."""


class ProducePolicy:
    """What a topic's configuration asks of a produced batch. Made when the configuration
    changes, and never changed, so that the data path reads a few plain attributes. Defaults are
    Kafka's."""

    __slots__ = (
        "checks_lengths",
        "compression_level",
        "is_compacted",
        "is_log_append_time",
        "is_plain",
        "max_message_bytes",
        "opened_bytes_max",
        "target_compression",
        "timestamp_after_max_ms",
        "timestamp_before_max_ms",
        "walked_bytes_max",
    )

    def __init__(
        self,
        *,
        max_message_bytes: int = 1_048_588,
        timestamp_before_max_ms: int = INT64_MAX,
        timestamp_after_max_ms: int = 3_600_000,
        is_log_append_time: bool = False,
        is_compacted: bool = False,
        target_compression: Compression | None = None,
        compression_level: int | None = None,
        checks_lengths: bool = True,
    ) -> None:
        self.max_message_bytes = max_message_bytes
        self.timestamp_before_max_ms = timestamp_before_max_ms
        self.timestamp_after_max_ms = timestamp_after_max_ms
        self.is_log_append_time = is_log_append_time
        self.is_compacted = is_compacted
        self.target_compression = target_compression
        """None: as the producer sent it."""
        self.compression_level = compression_level
        self.checks_lengths = checks_lengths
        """Of the records; the broker's `ottla.produce.check.records`."""
        self.opened_bytes_max = min(DECOMPRESSED_BYTES_MAX, INFLATION_MAX * max_message_bytes)
        self.walked_bytes_max = max(WALKED_BYTES_MIN, self.opened_bytes_max)
        self.is_plain = not (
            is_log_append_time
            or is_compacted
            or timestamp_before_max_ms < INT64_MAX
            or target_compression is not None
        )
        """Whether a sound batch with good timestamps is stored as it came, not looked into."""

    @classmethod
    def of(cls, config: TopicConfig, *, checks_lengths: bool = True) -> ProducePolicy:
        target: Compression | None = None
        level: int | None = None
        match config.compression_type:
            case "producer":
                pass
            case "uncompressed":
                target = Compression.NONE
            case "snappy":
                target = Compression.SNAPPY
            case "gzip":
                target, level = Compression.GZIP, config.compression_gzip_level
            case "lz4":
                target, level = Compression.LZ4, config.compression_lz4_level
            case "zstd":
                target, level = Compression.ZSTD, config.compression_zstd_level
            case unknown:
                raise AssertionError(f"compression.type={unknown} has passed the validation")
        return cls(
            max_message_bytes=config.max_message_bytes,
            timestamp_before_max_ms=config.message_timestamp_before_max_ms,
            timestamp_after_max_ms=config.message_timestamp_after_max_ms,
            is_log_append_time=config.message_timestamp_type == "LogAppendTime",
            is_compacted="compact" in config.cleanup_policy,
            target_compression=target,
            compression_level=level,
            checks_lengths=checks_lengths,
        )


def validate_produced(
    batch: memoryview,
    policy: ProducePolicy,
    *,
    now_ms: int,
    produce_version: int,
    is_at_once: bool = False,
) -> tuple[memoryview, BatchHeader]:
    """Checks what a client sent for one partition (writable bytes), and returns the batch to append
    with its header: the same memory, maybe patched (log-append time), or other memory when the
    topic asks for another compression. Raises KafkaError with the code for the client; `TakesLong`
    if it is to be done at once and cannot be, and has then changed nothing."""
    size = len(batch)
    try:
        fields = _unpack_header(batch)
    except struct.error:
        raise _misframed(batch) from None
    (
        base_offset,
        batch_length,
        _,
        magic,
        crc,
        attributes,
        last_offset_delta,
        _,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        record_count,
    ) = fields
    if magic != MAGIC or batch_length != size - LOG_OVERHEAD_BYTES:
        raise _misframed(batch)
    if attributes:
        _check_attributes(attributes, producer_id, produce_version)
    if base_offset != 0:
        raise _invalid(f"a produced batch begins at offset 0, this one at {base_offset}")
    if size > policy.max_message_bytes:
        raise too_large(size, policy)
    if is_at_once and policy.checks_lengths and _takes_long(size, attributes, record_count):
        raise TakesLong  # Before the CRC, which would be computed twice.
    if _crc(batch[ATTRIBUTES_AT:]) != crc:
        raise CorruptRecord("the CRC of the record batch is wrong")
    room_bytes = DECOMPRESSED_BYTES_MAX if attributes & COMPRESSION_MASK else size - HEADER_BYTES
    if not 0 < record_count <= room_bytes // RECORD_BYTES_MIN or (
        last_offset_delta != record_count - 1
    ):
        raise _invalid(
            f"a batch of {size} bytes claims {record_count} records "
            f"and the last offset delta {last_offset_delta}"
        )
    if producer_id >= 0 and (base_sequence < 0 or producer_epoch < 0):
        raise _invalid(
            f"producer {producer_id} sent epoch {producer_epoch} and sequence {base_sequence}"
        )
    header = _new_tuple(BatchHeader, fields)
    if policy.checks_lengths:
        _check_lengths(batch, header, policy, is_at_once)
    if (
        policy.is_plain
        and max_timestamp - now_ms <= policy.timestamp_after_max_ms
        and not attributes & LOG_APPEND_TIME_FLAG
    ):
        return batch, header
    try:
        return _adapt(batch, header, policy, now_ms)
    except CorruptRecord as error:
        # Not CORRUPT_MESSAGE, which clients retry: the CRC says that it was sent like this.
        raise _invalid(str(error)) from None


def check_is_a_batch(records: memoryview) -> None:
    """Raises CorruptRecord for what is no batch of any format. Kafka looks for this in all batches
    of a request before anything else, so one of them has the whole request refused."""
    if len(records) <= MAGIC_AT:
        return
    if records[MAGIC_AT] > MAGIC:
        raise CorruptRecord(f"there is no message format with magic {records[MAGIC_AT]}")
    length: int = struct.unpack_from(">i", records, LENGTH_AT)[0]
    if length < _LENGTH_MIN:
        raise CorruptRecord(f"a record batch of {length + LOG_OVERHEAD_BYTES} bytes cannot be")


def check_is_one_batch(batch: memoryview, produce_version: int) -> None:
    """Raises NotOneBatch. Part of `validate_produced`, for whoever refuses a request anyway and
    wants to know whether this is to be said first."""
    if len(batch) < HEADER_BYTES or batch[MAGIC_AT] != MAGIC or batch_size(batch) != len(batch):
        error = _misframed(batch)
        if isinstance(error, NotOneBatch):
            raise error
        return
    attributes = parse_header(batch).attributes
    if attributes & COMPRESSION_MASK == _ZSTD_ID:
        _check_attributes(_ZSTD_ID, 0, produce_version)


def _takes_long(size: int, attributes: int, record_count: int) -> bool:
    """By what the header says."""
    is_compressed = attributes & COMPRESSION_MASK
    bytes_max = AT_ONCE_COMPRESSED_BYTES_MAX if is_compressed else AT_ONCE_BYTES_MAX
    return size > bytes_max or record_count > AT_ONCE_RECORDS_MAX


def _check_lengths(
    batch: memoryview, header: BatchHeader, policy: ProducePolicy, is_at_once: bool
) -> None:
    is_compressed = header.attributes & COMPRESSION_MASK
    limit_bytes = policy.walked_bytes_max
    if is_at_once:
        limit_bytes = min(limit_bytes, AT_ONCE_OPENED_BYTES_MAX)
    try:
        if is_compressed:
            check_lengths(records_data(batch, header, limit_bytes=limit_bytes), header.record_count)
        else:
            check_lengths(bytes(batch[HEADER_BYTES:]), header.record_count)
    except CorruptRecord as error:
        # Not CORRUPT_MESSAGE, which clients retry: the CRC says that it was sent like this.
        raise _invalid(str(error)) from None
    except KafkaError:
        if limit_bytes < policy.walked_bytes_max:
            raise TakesLong from None
        raise


def _check_attributes(attributes: int, producer_id: int, produce_version: int) -> None:
    compression = attributes & COMPRESSION_MASK
    if compression > _COMPRESSION_ID_MAX:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"there is no compression with id {compression}"
        )
    if compression == _ZSTD_ID and produce_version < ZSTD_PRODUCE_VERSION_MIN:
        raise NotOneBatch(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"zstd needs Produce version {ZSTD_PRODUCE_VERSION_MIN}, this is {produce_version}",
        )
    if attributes & CONTROL_FLAG:
        raise _invalid("clients may not write control records")
    if attributes & TRANSACTIONAL_FLAG and producer_id < 0:
        raise _invalid("a transactional batch needs a producer id")


def _adapt(
    batch: memoryview, header: BatchHeader, policy: ProducePolicy, now_ms: int
) -> tuple[memoryview, BatchHeader]:
    """The less common half: looks inside where it must, then makes the batch what the topic
    wants it to be."""
    is_marked = header.attributes & LOG_APPEND_TIME_FLAG != 0
    if is_marked and (policy.is_log_append_time or header.max_timestamp == NO_TIMESTAMP):
        message = "only a broker may set the timestamp type LogAppendTime"
        raise RecordsRejected(ErrorCode.INVALID_TIMESTAMP, message, [RecordError(0, message)])
    max_timestamp = header.max_timestamp
    is_too_new = max_timestamp - now_ms > policy.timestamp_after_max_ms
    if policy.is_compacted or (
        not policy.is_log_append_time and (is_too_new or policy.timestamp_before_max_ms < INT64_MAX)
    ):
        if header.record_count > RECORDS_INSPECTED_MAX:
            raise _too_many(header.record_count, policy)
        max_timestamp = _check_records(batch, policy, now_ms)
    target = policy.target_compression
    if target is not None and target != header.compression:
        batch = _recompressed(batch, target, policy)
        if len(batch) > policy.max_message_bytes:
            raise too_large(len(batch), policy)
    if policy.is_log_append_time:
        patch_max_timestamp(batch, TimestampType.LOG_APPEND_TIME, now_ms)
    elif is_marked or max_timestamp != header.max_timestamp:
        patch_max_timestamp(batch, TimestampType.CREATE_TIME, max_timestamp)
    return batch, parse_header(batch)


def _recompressed(batch: memoryview, target: Compression, policy: ProducePolicy) -> memoryview:
    try:
        return memoryview(
            recompress(batch, target, policy.compression_level, limit_bytes=policy.opened_bytes_max)
        )
    except CorruptRecord as error:
        raise _invalid(str(error)) from None  # As for lengths that are wrong.


def _check_records(batch: memoryview, policy: ProducePolicy, now_ms: int) -> int:
    """Looks at every record, and returns the greatest timestamp that is really there."""
    max_timestamp = NO_TIMESTAMP
    code = ErrorCode.INVALID_RECORD
    errors: list[RecordError] = []
    oldest = now_ms - policy.timestamp_before_max_ms
    newest = now_ms + policy.timestamp_after_max_ms
    checks_timestamps = not policy.is_log_append_time
    records = giving_way(iter_records(batch, limit_bytes=policy.opened_bytes_max))
    for index, record in enumerate(records):
        timestamp = record.timestamp
        if timestamp > max_timestamp:
            max_timestamp = timestamp
        if policy.is_compacted and record.key is None:
            errors.append(RecordError(index, "Compacted topic cannot accept message without key"))
        elif checks_timestamps and timestamp != NO_TIMESTAMP and not oldest <= timestamp <= newest:
            code = ErrorCode.INVALID_TIMESTAMP
            message = (
                f"Timestamp {timestamp} of message with offset {index} is out of range. The "
                f"timestamp should be within [{oldest}, {newest}]"
            )
            errors.append(RecordError(index, message))
        if len(errors) == RECORD_ERRORS_MAX:
            break
    if errors:
        summary = "One or more records have been rejected"
        if code is ErrorCode.INVALID_TIMESTAMP:
            summary += " due to invalid timestamp"
        else:
            summary += f" due to {len(errors)} record errors in total"
        first = errors[0]
        raise RecordsRejected(code, f"{summary}; {first.batch_index}: {first.message}", errors)
    return max_timestamp


def _misframed(batch: memoryview) -> KafkaError:
    """Why the bytes are not exactly one batch of magic 2."""
    size = len(batch)
    if size == 0:
        return NotOneBatch(
            ErrorCode.INVALID_RECORD,
            "a produce request holds one record batch for each partition, not none",
        )
    if size > MAGIC_AT and batch[MAGIC_AT] in (0, 1):
        return NotOneBatch(
            ErrorCode.INVALID_RECORD,
            f"message format v{batch[MAGIC_AT]} is not supported: "
            f"produce record batches with magic {MAGIC} (any client since Kafka 0.11 does)",
        )
    if size > MAGIC_AT and batch[MAGIC_AT] != MAGIC:
        return CorruptRecord(f"there is no message format with magic {batch[MAGIC_AT]}")
    if size < LENGTH_AT + 4:
        return NotOneBatch(ErrorCode.INVALID_RECORD, f"{size} bytes are no record batch")
    claimed_bytes: int = struct.unpack_from(">i", batch, LENGTH_AT)[0] + LOG_OVERHEAD_BYTES
    if claimed_bytes < HEADER_BYTES:
        return CorruptRecord(f"a record batch of {claimed_bytes} bytes cannot be")
    if claimed_bytes > size:
        # Kafka takes a cut batch for no batch.
        return NotOneBatch(
            ErrorCode.INVALID_RECORD,
            f"the record batch claims {claimed_bytes} bytes, {size} were sent",
        )
    if not is_crc_valid(batch[:claimed_bytes]):
        return CorruptRecord("the length or the CRC of the record batch is wrong")
    # Kafka drops a tail that is not a whole batch and acknowledges the rest. To acknowledge
    # less than was sent is worse than to refuse what no client sends.
    return NotOneBatch(
        ErrorCode.INVALID_RECORD,
        "a produce request holds exactly one record batch for each partition, "
        f"here {size - claimed_bytes} bytes follow it",
    )


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, message)


def _too_many(record_count: int, policy: ProducePolicy) -> KafkaError:
    if policy.is_plain:
        return KafkaError(
            ErrorCode.INVALID_TIMESTAMP,
            f"a timestamp is more than {policy.timestamp_after_max_ms} ms ahead; the batch of "
            f"{record_count} records is too big to say which",
        )
    return KafkaError(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"this topic takes at most {RECORDS_INSPECTED_MAX} records in a batch, since it must look "
        f"at each; this one has {record_count}",
    )


def too_large(size: int, policy: ProducePolicy) -> KafkaError:
    return KafkaError(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"the record batch has {size} bytes, max.message.bytes is {policy.max_message_bytes}",
    )
