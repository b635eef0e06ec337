"""What a user may say to the source: the options of Spark's own Kafka connector, under its names.

An option that is not known is an error. Spark's connector lets it pass without a word, and a
misspelt one is then found days later.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from ottla.client.blocking_cluster import (
    EARLIEST,
    LATEST,
    READ_COMMITTED,
    READ_UNCOMMITTED,
)
from ottla.kernel.ids import TopicPartition
from ottla.pipeline.columns import COLUMNS
from ottla.pipeline.fetcher import FETCH_BYTES

T = TypeVar("T")

RETRY_OPTION = "kafka.default.api.timeout.ms"
"""How long a broker that went away is waited for, named as Kafka's clients name it."""

_SELECTIONS = ("subscribe", "subscribePattern", "assign")
_STARTS = ("startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp")
_ENDS = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
_KNOWN = (
    *_SELECTIONS,
    *_STARTS,
    *_ENDS,
    "startingOffsetsByTimestampStrategy",
    "maxOffsetsPerTrigger",
    "minPartitions",
    "failOnDataLoss",
    "includeHeaders",
    "columns",
    "kafka.bootstrap.servers",
    "kafka.client.id",
    "kafka.security.protocol",
    "kafka.isolation.level",
    "kafka.request.timeout.ms",
    RETRY_OPTION,
    "kafka.max.partition.fetch.bytes",
)
_ISOLATION_LEVELS = {"read_committed": READ_COMMITTED, "read_uncommitted": READ_UNCOMMITTED}
_WORDS = {"earliest": EARLIEST, "latest": LATEST}


class OptionError(ValueError):
    """Says which option it is about, what is wrong with it, and what to do."""

    def __init__(self, option: str, problem: str, remedy: str) -> None:
        super().__init__(f"option {option}: {problem}; {remedy}")
        self.option = option

    def __reduce__(self) -> tuple[Any, ...]:
        # It crosses from one process of Spark's to another, and is not made of its own text.
        return _as_it_was, (self.option, str(self))


def _as_it_was(option: str, text: str) -> OptionError:
    error = OptionError.__new__(OptionError)
    ValueError.__init__(error, text)
    error.option = option
    return error


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

    bootstrap: tuple[tuple[str, int], ...]
    client_id: str
    subscribe: tuple[str, ...]
    subscribe_pattern: str | None
    assign: tuple[TopicPartition, ...]
    start: Boundary
    end: Boundary
    min_partitions: int | None
    max_offsets_per_trigger: int | None
    fail_on_data_loss: bool
    columns: tuple[str, ...]
    isolation_level: int
    request_timeout_s: float
    retry_timeout_s: float
    fetch_bytes: int

    @classmethod
    def parse(cls, options: Mapping[str, str], *, is_stream: bool = False) -> ReadOptions:
        """Names in any case, as Spark has them. Raises OptionError."""
        given = _Given(options)
        selection = given.only_one_of(_SELECTIONS)
        if selection is None:
            raise OptionError("subscribe", "is missing", f"set one of {', '.join(_SELECTIONS)}")
        protocol = given.text("kafka.security.protocol") or "PLAINTEXT"
        if protocol != "PLAINTEXT":
            raise OptionError(
                "kafka.security.protocol",
                f"{protocol} is not supported yet",
                "use a PLAINTEXT listener of the broker",
            )
        return cls(
            bootstrap=given.required("kafka.bootstrap.servers", _addresses),
            client_id=given.text("kafka.client.id") or "ottla-pipeline",
            subscribe=given.parsed("subscribe", _names) or (),
            subscribe_pattern=given.parsed("subscribePattern", _pattern),
            assign=given.parsed("assign", _assigned) or (),
            start=_start(given, is_stream),
            end=_end(given, is_stream),
            min_partitions=given.parsed("minPartitions", _positive),
            max_offsets_per_trigger=given.parsed("maxOffsetsPerTrigger", _positive),
            fail_on_data_loss=given.parsed("failOnDataLoss", _boolean) is not False,
            columns=_columns(given),
            isolation_level=_isolation_level(given),
            request_timeout_s=(given.parsed("kafka.request.timeout.ms", _positive) or 30_000)
            / 1000,
            retry_timeout_s=(given.parsed(RETRY_OPTION, _positive) or 60_000) / 1000,
            fetch_bytes=given.parsed("kafka.max.partition.fetch.bytes", _positive) or FETCH_BYTES,
        )


def parse_columns(options: Mapping[str, str]) -> tuple[str, ...]:
    """Those of a row, in order; the rest of the options need not be right for that."""
    return _columns(_Given(options))


class _Given:
    """The options as they were given, after their names were checked."""

    def __init__(self, options: Mapping[str, str]) -> None:
        spelt = {name.lower(): name for name in _KNOWN}
        self._values: dict[str, str] = {}
        for name, value in options.items():
            known = spelt.get(name.lower())
            if known is None:
                raise _unknown(name, spelt)
            self._values[known] = value

    def text(self, option: str) -> str | None:
        return self._values.get(option)

    def only_one_of(self, options: tuple[str, ...]) -> str | None:
        found = [option for option in options if option in self._values]
        if len(found) > 1:
            raise OptionError(found[0], f"clashes with {found[1]}", "remove one of them")
        return found[0] if found else None

    def parsed(self, option: str, parse: Callable[[str], T]) -> T | None:
        """None where it was not given. What `parse` says with a ValueError is the problem and the
        remedy."""
        text = self._values.get(option)
        if text is None:
            return None
        try:
            return parse(text.strip())
        except ValueError as error:
            raise OptionError(option, f"{text!r} cannot be used", str(error)) from None

    def required(self, option: str, parse: Callable[[str], T]) -> T:
        value = self.parsed(option, parse)
        if value is None:
            raise OptionError(option, "is missing", "set it")
        return value


def _unknown(name: str, spelt: Mapping[str, str]) -> OptionError:
    lower = name.lower()
    if lower.startswith(("kafka.sasl.", "kafka.ssl.")):
        return OptionError(
            name, "is not supported yet", "use a PLAINTEXT listener of the broker, and remove it"
        )
    near = [spelt[found] for found in difflib.get_close_matches(lower, spelt, 1)]
    near += [option for known, option in spelt.items() if lower in known.split(".")]
    if near:
        return OptionError(name, "is not known", f"did you mean {near[0]}?")
    return OptionError(name, "is not known", f"remove it; there are {', '.join(_KNOWN)}")


def _start(given: _Given, is_stream: bool) -> Boundary:
    option = given.only_one_of(_STARTS)
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


def _end(given: _Given, is_stream: bool) -> Boundary:
    option = given.only_one_of(_ENDS)
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


def _boundary(given: _Given, option: str | None, *, is_latest_without: bool) -> Boundary | None:
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


def _columns(given: _Given) -> tuple[str, ...]:
    has_headers = given.parsed("includeHeaders", _boolean)
    named = given.parsed("columns", _column_names)
    if named is None:
        return tuple(column for column in COLUMNS if column != "headers" or has_headers)
    if has_headers is not None and has_headers != ("headers" in named):
        raise OptionError(
            "includeHeaders", "clashes with columns", "remove it: columns says it all"
        )
    return named


def _isolation_level(given: _Given) -> int:
    # Unlike Spark's connector, whose default is Kafka's: a record of an aborted transaction is
    # one that its writer has taken back.
    level = given.parsed("kafka.isolation.level", _isolation)
    return READ_COMMITTED if level is None else level


# -- texts -------------------------------------------------------------------------------------


def _isolation(text: str) -> int:
    if text not in _ISOLATION_LEVELS:
        raise ValueError(f"set it to {' or '.join(_ISOLATION_LEVELS)}")
    return _ISOLATION_LEVELS[text]


def _addresses(text: str) -> tuple[tuple[str, int], ...]:
    addresses = []
    for one in _names(text):
        host, _, port = one.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise ValueError(f"write host:port,host:port; {one!r} is not host:port")
        addresses.append((host.removeprefix("[").removesuffix("]"), int(port)))
    return tuple(addresses)


def _names(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise ValueError("name at least one, with commas between them")
    return names


def _column_names(text: str) -> tuple[str, ...]:
    names = _names(text)
    for name in names:
        if name not in COLUMNS:
            raise ValueError(f"there is no column {name!r}, there are {', '.join(COLUMNS)}")
    return names


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"it is no regular expression: {error}") from None
    return text


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("set it to true or false")
    return text.lower() == "true"


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise ValueError("set it to a whole number above 0")
    return int(text)


def _timestamp(text: str) -> int:
    if not text.isdecimal():
        raise ValueError("set it to milliseconds since 1970")
    return int(text)


def _assigned(text: str) -> tuple[TopicPartition, ...]:
    how = 'write {"topic":[0,1]}'
    assigned = []
    for topic, partitions in _json_object(text, how).items():
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
    for topic, partitions in _json_object(text, how).items():
        if not isinstance(partitions, dict):
            raise ValueError(how)
        for partition, number in partitions.items():
            if not partition.isdecimal() or type(number) is not int:
                raise ValueError(how)
            found[TopicPartition(topic, int(partition))] = number
    return found


def _json_object(text: str, how: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        raise ValueError(how) from None
    if not isinstance(found, dict):
        raise ValueError(how)
    return found


def _is_index(value: object) -> bool:
    return type(value) is int and value >= 0
