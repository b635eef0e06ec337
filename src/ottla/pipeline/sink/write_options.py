"""What a user may say to the sink: the options of Spark's own Kafka sink, under its names.

As in a read, one that is not known is an error: a misspelt one would be found days later.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ottla.pipeline.rows.encode import BATCH_BYTES
from ottla.pipeline.source.given_options import (
    CLIENT_OPTIONS_WITHOUT_EFFECT,
    CONNECTION_OPTIONS,
    Connection,
    GivenOptions,
    OptionError,
    boolean,
    positive,
)
from ottla.records.compression import Compression

DELIVERY_OPTION = "kafka.delivery.timeout.ms"
"""How long a broker that went away is waited for, named as Kafka's producers name it."""
_DELIVERY_MS = 120_000

TRANSACTIONAL_ID = "kafka.transactional.id"
CHECKPOINT = "checkpointLocation"
_TRANSACTION_MS = 60_000
_OF_TRANSACTIONS = ("kafka.group.id", "kafka.transaction.timeout.ms")
_KNOWN = (
    "topic",
    "includeTimestamp",
    *CONNECTION_OPTIONS,
    DELIVERY_OPTION,
    "kafka.acks",
    "kafka.compression.type",
    "kafka.batch.size",
    TRANSACTIONAL_ID,
    *_OF_TRANSACTIONS,
    # What Spark itself reads, and passes on.
    CHECKPOINT,
    "queryName",
)
_NO_EFFECT = (
    # There for a read. Where there is a column headers it is written, as by Spark's sink.
    "includeHeaders",
    *CLIENT_OPTIONS_WITHOUT_EFFECT,
    "kafka.buffer.memory",
    "kafka.compression.gzip.level",
    "kafka.compression.lz4.level",
    "kafka.compression.zstd.level",
    "kafka.enable.idempotence",
    "kafka.linger.ms",
    "kafka.max.block.ms",
    "kafka.max.in.flight.requests.per.connection",
    "kafka.max.request.size",
    "kafka.metadata.max.idle.ms",
    "kafka.partitioner.adaptive.partitioning.enable",
    "kafka.partitioner.availability.timeout.ms",
    "kafka.retries",
)
"""Of Kafka's producer, which is not used here: rows are there, and are sent as fast as they go."""
_REFUSED = {
    "kafka.interceptor.classes": "remove it: no Java runs where rows are written",
    "kafka.key.serializer": "remove it: keys are bytes or text",
    "kafka.partitioner.class": "remove it: keys go where Kafka's own partitioner sends them; to "
    "choose, fill column partition",
    "kafka.partitioner.ignore.keys": "remove it: keys decide; to choose, fill column partition",
    "kafka.value.serializer": "remove it: values are bytes or text",
}


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Parsed on the driver, and sent to every task."""

    connection: Connection
    topic: str | None
    """Of all rows. Where there is none each row names its own."""
    has_timestamps: bool
    """Rows bring theirs; else it is the time at which they are written."""
    compression: Compression
    batch_bytes: int
    transactional_id: str | None
    """Where there is one a batch is written exactly once, in one transaction."""
    transaction_timeout_ms: int
    group_id: str | None
    """Whose offsets say how far the input was read. There is one with a transactional id."""
    checkpoint: str | None

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> WriteOptions:
        """Names in any case, as Spark has them. Raises OptionError."""
        for name in options:
            if name.lower() in _REFUSED:
                raise OptionError(name, "is not for this sink", _REFUSED[name.lower()])
        given = GivenOptions(options, (*_KNOWN, *_NO_EFFECT))
        given.parsed("includeHeaders", boolean)
        transactional_id = given.parsed(TRANSACTIONAL_ID, _not_empty)
        for option in _OF_TRANSACTIONS:
            if transactional_id is None and given.text(option) is not None:
                raise OptionError(
                    option, "is about transactions", f"set {TRANSACTIONAL_ID} too, or remove it"
                )
        given.parsed("kafka.acks", _all_acks)
        return cls(
            connection=Connection.parse(given, retry_option=DELIVERY_OPTION, retry_ms=_DELIVERY_MS),
            topic=given.parsed("topic", _not_empty),
            has_timestamps=given.parsed("includeTimestamp", boolean) or False,
            compression=given.parsed("kafka.compression.type", _compression) or Compression.NONE,
            batch_bytes=given.parsed("kafka.batch.size", positive) or BATCH_BYTES,
            transactional_id=transactional_id,
            transaction_timeout_ms=given.parsed("kafka.transaction.timeout.ms", positive)
            or _TRANSACTION_MS,
            group_id=given.parsed("kafka.group.id", _not_empty) or transactional_id,
            checkpoint=given.text(CHECKPOINT),
        )


def _not_empty(text: str) -> str:
    if not text:
        raise ValueError("give it a name")
    return text


def _all_acks(text: str) -> None:
    if text not in ("all", "-1"):
        raise ValueError("set it to all, or remove it: writes are idempotent, which needs all")


def _compression(text: str) -> Compression:
    names = {kind.name.lower(): kind for kind in Compression}
    if text not in names:
        raise ValueError(f"set it to one of {', '.join(names)}")
    return names[text]
