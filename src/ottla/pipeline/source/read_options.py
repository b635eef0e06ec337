"""What a user may say to the source: the options of Spark's own Kafka connector, under its names.

An option that is not known is an error. Spark's connector lets it pass without a word, and a
misspelt one is then found days later. Those that only tune how that connector reads are taken, and
change nothing: a job that sets them runs as it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ottla.client.blocking_cluster import (
    EARLIEST,
    LATEST,
    READ_COMMITTED,
    READ_UNCOMMITTED,
)
from ottla.kernel.ids import TopicPartition
from ottla.pipeline.rows.columns import COLUMNS
from ottla.pipeline.rows.fetcher import FETCH_BYTES
from ottla.pipeline.source.given_options import (
    CLIENT_OPTIONS_WITHOUT_EFFECT,
    CONNECTION_OPTIONS,
    RETRY_OPTION,
    Connection,
    GivenOptions,
    OptionError,
    boolean,
    comma_separated,
    json_object,
    positive,
)

_SELECTIONS = ("subscribe", "subscribePattern", "assign")
# Where several are given the first one counts, as with Spark's connector.
_STARTS = ("startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets")
_ENDS = ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")
_KNOWN = (
    *_SELECTIONS,
    *_STARTS,
    *_ENDS,
    "startingOffsetsByTimestampStrategy",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "minPartitions",
    "maxRecordsPerPartition",
    "failOnDataLoss",
    "includeHeaders",
    "columns",
    *CONNECTION_OPTIONS,
    RETRY_OPTION,
    "kafka.client.rack",
    "kafka.group.id",
    "kafka.isolation.level",
    "kafka.max.partition.fetch.bytes",
)
_NO_EFFECT = (
    "groupIdPrefix",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    *CLIENT_OPTIONS_WITHOUT_EFFECT,
    "kafka.allow.auto.create.topics",
    "kafka.check.crcs",
    "kafka.exclude.internal.topics",
    "kafka.fetch.max.bytes",
    "kafka.fetch.max.wait.ms",
    "kafka.fetch.min.bytes",
    "kafka.group.instance.id",
    "kafka.group.protocol",
    "kafka.heartbeat.interval.ms",
    "kafka.max.poll.interval.ms",
    "kafka.max.poll.records",
    "kafka.partition.assignment.strategy",
    "kafka.session.timeout.ms",
)
"""Of Spark's connector and its consumers. There is no consumer here: a task asks for the offsets of
its range, as fast as they come."""
_REFUSED = {
    "kafka.auto.offset.reset": "set startingOffsets instead",
    "kafka.enable.auto.commit": "remove it: offsets are committed where kafka.group.id is set",
    "kafka.interceptor.classes": "remove it: no Java runs where records are read",
    "kafka.key.deserializer": "remove it: keys are bytes, cast the column",
    "kafka.value.deserializer": "remove it: values are bytes, cast the column",
}
"""What Spark's connector does not take either."""
_ISOLATION_LEVELS = {"read_committed": READ_COMMITTED, "read_uncommitted": READ_UNCOMMITTED}
_WORDS = {"earliest": EARLIEST, "latest": LATEST}
_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(rf"(\d+)\s*({'|'.join(_UNITS_S)})?")


@dataclass(frozen=True, slots=True)
class Everywhere:
    """EARLIEST or LATEST, of each partition."""

    offset: int


@dataclass(frozen=True, slots=True)
class Offsets:
    """Partition by partition; EARLIEST and LATEST may be among them."""

    option: str
    by_partition: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Timestamps:
    """The first record that is not older: than the one timestamp for all, where there is one."""

    option: str
    everywhere_ms: int | None
    by_partition_ms: Mapping[TopicPartition, int]
    is_latest_without: bool
    """Where no record is so new the boundary is the end of the partition; else it is an error."""


Boundary = Everywhere | Offsets | Timestamps


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Parsed on the driver, and sent to every task."""

    connection: Connection
    subscribe: tuple[str, ...]
    subscribe_pattern: str | None
    assign: tuple[TopicPartition, ...]
    start: Boundary
    end: Boundary
    min_partitions: int | None
    max_records_per_partition: int | None
    max_offsets_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_trigger_delay_s: float
    """After so long fewer offsets than the minimum are read too."""
    group_id: str | None
    """Where a stream commits how far it is, for others to see; it is never asked."""
    fail_on_data_loss: bool
    columns: tuple[str, ...]
    isolation_level: int
    fetch_bytes: int
    rack_id: str
    """Where the tasks run: followers in the same rack are read from."""

    @classmethod
    def parse(cls, options: Mapping[str, str], *, is_stream: bool = False) -> ReadOptions:
        """Names in any case, as Spark has them. Raises OptionError."""
        given = _given(options)
        selection = given.only_one_of(_SELECTIONS)
        if selection is None:
            raise OptionError("subscribe", "is missing", f"set one of {', '.join(_SELECTIONS)}")
        return cls(
            connection=Connection.parse(given),
            subscribe=given.parsed("subscribe", comma_separated) or (),
            subscribe_pattern=given.parsed("subscribePattern", _pattern),
            assign=given.parsed("assign", _assigned) or (),
            start=_start(given, is_stream),
            end=_end(given, is_stream),
            min_partitions=given.parsed("minPartitions", positive),
            max_records_per_partition=given.parsed("maxRecordsPerPartition", positive),
            max_offsets_per_trigger=given.parsed("maxOffsetsPerTrigger", positive),
            min_offsets_per_trigger=_min_offsets(given),
            max_trigger_delay_s=_max_trigger_delay_s(given),
            group_id=given.text("kafka.group.id"),
            fail_on_data_loss=given.parsed("failOnDataLoss", boolean) is not False,
            columns=_columns(given),
            isolation_level=_isolation_level(given),
            fetch_bytes=given.parsed("kafka.max.partition.fetch.bytes", positive) or FETCH_BYTES,
            rack_id=given.text("kafka.client.rack") or "",
        )


def parse_columns(options: Mapping[str, str]) -> tuple[str, ...]:
    """Those of a row, in order; the rest of the options need not be right for that."""
    return _columns(_given(options))


def _given(options: Mapping[str, str]) -> GivenOptions:
    for name in options:
        if name.lower() in _REFUSED:
            raise OptionError(name, "is not for a source", _REFUSED[name.lower()])
    return GivenOptions(options, (*_KNOWN, *_NO_EFFECT))


def _start(given: GivenOptions, is_stream: bool) -> Boundary:
    option = given.first_of(_STARTS)
    strategy = given.text("startingOffsetsByTimestampStrategy") or "error"
    if strategy not in ("error", "latest"):
        raise OptionError(
            "startingOffsetsByTimestampStrategy",
            f"{strategy!r} cannot be used",
            "set it to error or latest",
        )
    boundary = _boundary(given, option, is_latest_without=strategy == "latest")
    if boundary is None:
        return Everywhere(LATEST if is_stream else EARLIEST)
    if not is_stream and LATEST in _offsets_of(boundary):
        raise OptionError(
            option or "", "a batch cannot start at the latest offset", "start at earliest"
        )
    return boundary


def _end(given: GivenOptions, is_stream: bool) -> Boundary:
    option = given.first_of(_ENDS)
    if is_stream and option is not None:
        raise OptionError(
            option, "a stream has no end", "remove it, or read a batch with spark.read"
        )
    boundary = _boundary(given, option, is_latest_without=True)
    if boundary is None:
        return Everywhere(LATEST)
    if EARLIEST in _offsets_of(boundary):
        raise OptionError(
            option or "", "nothing can be read up to the earliest offset", "end at latest"
        )
    return boundary


def _offsets_of(boundary: Boundary) -> list[int]:
    if isinstance(boundary, Everywhere):
        return [boundary.offset]
    return [*boundary.by_partition.values()] if isinstance(boundary, Offsets) else []


def _boundary(
    given: GivenOptions, option: str | None, *, is_latest_without: bool
) -> Boundary | None:
    if option is None:
        return None
    text = (given.text(option) or "").strip()
    if option.endswith("ByTimestamp"):
        by_partition = given.required(option, _numbers_by_partition)
        return Timestamps(option, None, _not_negative(option, by_partition), is_latest_without)
    if option.endswith("Timestamp"):
        return Timestamps(option, given.required(option, _timestamp), {}, is_latest_without)
    if text.lower() in _WORDS:
        return Everywhere(_WORDS[text.lower()])
    return Offsets(option, given.required(option, _offsets_by_partition))


def _not_negative(
    option: str, by_partition: dict[TopicPartition, int]
) -> dict[TopicPartition, int]:
    for where, timestamp in by_partition.items():
        if timestamp < 0:
            raise OptionError(option, f"{where} has {timestamp}", "give milliseconds since 1970")
    return by_partition


def _min_offsets(given: GivenOptions) -> int | None:
    least = given.parsed("minOffsetsPerTrigger", positive)
    most = given.parsed("maxOffsetsPerTrigger", positive)
    if least is not None and most is not None and least > most:
        raise OptionError(
            "minOffsetsPerTrigger", f"is above maxOffsetsPerTrigger, {most}", "set it below"
        )
    return least


def _max_trigger_delay_s(given: GivenOptions) -> float:
    delay_s = given.parsed("maxTriggerDelay", _duration_s)
    return 15 * 60.0 if delay_s is None else delay_s


def _columns(given: GivenOptions) -> tuple[str, ...]:
    has_headers = given.parsed("includeHeaders", boolean)
    named = given.parsed("columns", _column_names)
    if named is None:
        return tuple(column for column in COLUMNS if column != "headers" or has_headers)
    if has_headers is not None and has_headers != ("headers" in named):
        raise OptionError(
            "includeHeaders", "clashes with columns", "remove it: columns says it all"
        )
    return named


def _isolation_level(given: GivenOptions) -> int:
    # Unlike Spark's connector, whose default is Kafka's: a record of an aborted transaction is
    # one that its writer has taken back.
    level = given.parsed("kafka.isolation.level", _isolation)
    return READ_COMMITTED if level is None else level


# -- texts -------------------------------------------------------------------------------------


def _isolation(text: str) -> int:
    if text not in _ISOLATION_LEVELS:
        raise ValueError(f"set it to {' or '.join(_ISOLATION_LEVELS)}")
    return _ISOLATION_LEVELS[text]


def _column_names(text: str) -> tuple[str, ...]:
    names = comma_separated(text)
    for name in names:
        if name not in COLUMNS:
            raise ValueError(f"there is no column {name!r}, there are {', '.join(COLUMNS)}")
    return names


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"it is not a regular expression: {error}") from None
    return text


def _duration_s(text: str) -> float:
    found = _DURATION.fullmatch(text.lower())
    if found is None:
        raise ValueError("write a number and its unit: 500ms, 30s, 15m, 1h or 1d")
    return int(found[1]) * _UNITS_S[found[2] or "ms"]


def _timestamp(text: str) -> int:
    if not text.isdecimal():
        raise ValueError("set it to milliseconds since 1970")
    return int(text)


def _assigned(text: str) -> tuple[TopicPartition, ...]:
    how = 'write {"topic":[0,1]}'
    assigned = []
    for topic, partitions in json_object(text, how).items():
        if not isinstance(partitions, list) or not all(_is_index(one) for one in partitions):
            raise ValueError(how)
        assigned += [TopicPartition(topic, partition) for partition in partitions]
    if not assigned:
        raise ValueError(how)
    return tuple(dict.fromkeys(assigned))


def _offsets_by_partition(text: str) -> dict[TopicPartition, int]:
    offsets = _numbers_by_partition(text)
    for where, offset in offsets.items():
        if offset < EARLIEST:
            raise ValueError(
                f"{where} has {offset}; there are -2 (earliest), -1 (latest) and offsets"
            )
    return offsets


def _numbers_by_partition(text: str) -> dict[TopicPartition, int]:
    how = 'write {"topic":{"0":23,"1":42}}, or for offsets earliest or latest'
    found = {}
    for topic, partitions in json_object(text, how).items():
        if not isinstance(partitions, dict):
            raise ValueError(how)
        for partition, number in partitions.items():
            if not partition.isdecimal() or type(number) is not int:
                raise ValueError(how)
            found[TopicPartition(topic, int(partition))] = number
    return found


def _is_index(value: object) -> bool:
    return type(value) is int and value >= 0
