from __future__ import annotations

import pickle

import pytest

from ottla.client.blocking_cluster import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED
from ottla.kernel.ids import TopicPartition
from ottla.pipeline.source.given_options import OptionError
from ottla.pipeline.source.read_options import (
    Everywhere,
    Offsets,
    ReadOptions,
    Timestamps,
    parse_columns,
)

NEEDED = {"kafka.bootstrap.servers": "a:9092", "subscribe": "clicks"}


def test_the_defaults_are_those_of_a_batch() -> None:
    options = ReadOptions.parse(NEEDED)
    assert options.connection.bootstrap == (("a", 9092),)
    assert options.subscribe == ("clicks",)
    assert (options.start, options.end) == (Everywhere(EARLIEST), Everywhere(LATEST))
    assert options.fail_on_data_loss
    assert options.isolation_level == READ_COMMITTED
    assert options.columns == (
        *("key", "value", "topic", "partition", "offset", "timestamp", "timestampType"),
    )
    assert (options.min_partitions, options.max_offsets_per_trigger) == (None, None)


def test_a_stream_starts_at_the_latest() -> None:
    assert ReadOptions.parse(NEEDED, is_stream=True).start == Everywhere(LATEST)


def test_names_are_those_of_sparks_connector_in_any_case() -> None:
    options = ReadOptions.parse(
        {
            "KAFKA.bootstrap.servers": "a:9092, [::1]:9093",
            "subscribepattern": "cl.*",
            "startingoffsets": '{"clicks":{"0":23,"1":-2}}',
            "endingOffsets": '{"clicks":{"0":-1,"1":7}}',
            "minPartitions": "8",
            "maxoffsetspertrigger": "1000",
            "failOnDataLoss": "FALSE",
            "includeheaders": "true",
            "kafka.isolation.level": "read_uncommitted",
            "kafka.request.timeout.ms": "1500",
            "kafka.default.api.timeout.ms": "2500",
            "kafka.max.partition.fetch.bytes": "65536",
            "kafka.client.id": "me",
            "kafka.client.rack": "east",
            "kafka.security.protocol": "PLAINTEXT",
        }
    )
    zero, one = TopicPartition("clicks", 0), TopicPartition("clicks", 1)
    assert options.connection.bootstrap == (("a", 9092), ("::1", 9093))
    assert options.subscribe_pattern == "cl.*"
    assert options.start == Offsets("startingOffsets", {zero: 23, one: EARLIEST})
    assert options.end == Offsets("endingOffsets", {zero: LATEST, one: 7})
    assert (options.min_partitions, options.max_offsets_per_trigger) == (8, 1000)
    assert not options.fail_on_data_loss
    assert options.columns[-1] == "headers"
    assert options.isolation_level == READ_UNCOMMITTED
    assert (options.connection.request_timeout_s, options.connection.retry_timeout_s) == (1.5, 2.5)
    assert (options.fetch_bytes, options.connection.client_id) == (65536, "me")
    assert options.rack_id == "east"


def test_assigned_partitions_and_timestamps() -> None:
    options = ReadOptions.parse(
        {
            "kafka.bootstrap.servers": "a:9092",
            "assign": '{"clicks":[1,0],"views":[2]}',
            "startingTimestamp": "1700000000000",
            "startingOffsetsByTimestampStrategy": "latest",
            "endingOffsetsByTimestamp": '{"clicks":{"0":5}}',
        }
    )
    assert options.assign == (
        TopicPartition("clicks", 1),
        TopicPartition("clicks", 0),
        TopicPartition("views", 2),
    )
    assert options.start == Timestamps("startingTimestamp", 1700000000000, {}, True)
    ends = {TopicPartition("clicks", 0): 5}
    assert options.end == Timestamps("endingOffsetsByTimestamp", None, ends, True)


def test_a_least_number_of_offsets_is_waited_for_so_long() -> None:
    options = ReadOptions.parse({**NEEDED, "minOffsetsPerTrigger": "5"})
    assert (options.min_offsets_per_trigger, options.max_trigger_delay_s) == (5, 900)
    options = ReadOptions.parse({**NEEDED, "maxTriggerDelay": "1500ms"})
    assert (options.min_offsets_per_trigger, options.max_trigger_delay_s) == (None, 1.5)


def test_what_only_tunes_sparks_connector_changes_nothing() -> None:
    tuned = {"kafka.fetch.min.bytes": "9", "fetchoffset.numretries": "3", "groupIdPrefix": "a"}
    tuned |= {
        "kafka.check.crcs": "true",
        "kafka.metric.reporters": "b",
        "kafka.retry.backoff.ms": "1",
    }
    assert ReadOptions.parse({**NEEDED, **tuned}) == ReadOptions.parse(NEEDED)


def test_of_several_boundaries_the_one_counts_that_counts_for_sparks_connector() -> None:
    all_of_them = {
        "startingOffsets": "earliest",
        "startingOffsetsByTimestamp": '{"clicks":{"0":5}}',
        "startingTimestamp": "7",
        "endingOffsets": "latest",
        "endingOffsetsByTimestamp": '{"clicks":{"0":8}}',
    }
    options = ReadOptions.parse({**NEEDED, **all_of_them})
    assert options.start == Timestamps("startingTimestamp", 7, {}, is_latest_without=False)
    assert isinstance(options.end, Timestamps)
    del all_of_them["startingTimestamp"]
    start = ReadOptions.parse({**NEEDED, **all_of_them}).start
    assert isinstance(start, Timestamps)
    assert start.option == "startingOffsetsByTimestamp"


def test_a_delay_without_a_unit_is_in_milliseconds() -> None:
    options = ReadOptions.parse({**NEEDED, "maxTriggerDelay": "1500"}, is_stream=True)
    assert options.max_trigger_delay_s == 1.5


def test_columns_are_projected_in_the_order_given() -> None:
    assert parse_columns({"columns": "offset, value"}) == ("offset", "value")
    assert parse_columns({**NEEDED, "columns": "headers"}) == ("headers",)


@pytest.mark.parametrize(
    ("changes", "option", "words"),
    [
        ({"kafka.bootstrap.servers": None}, "kafka.bootstrap.servers", "is missing"),
        ({"kafka.bootstrap.servers": "a"}, "kafka.bootstrap.servers", "'a' is not host:port"),
        ({"kafka.bootstrap.servers": "a:0"}, "kafka.bootstrap.servers", "'a:0' is not host:port"),
        ({"kafka.bootstrap.servers": ","}, "kafka.bootstrap.servers", "at least one"),
        ({"subscribe": None}, "subscribe", "set one of subscribe, subscribePattern, assign"),
        ({"assign": '{"clicks":[0]}'}, "subscribe", "clashes with assign; remove one"),
        ({"subscribe": None, "subscribePattern": "("}, "subscribePattern", "regular expression"),
        ({"subscribe": None, "assign": '{"clicks":0}'}, "assign", 'write {"topic":[0,1]}'),
        ({"subscribe": None, "assign": "[]"}, "assign", 'write {"topic":[0,1]}'),
        ({"subscribe": None, "assign": "{}"}, "assign", 'write {"topic":[0,1]}'),
        ({"startingOffset": "earliest"}, "startingOffset", "did you mean startingOffsets?"),
        ({"isolation": "read_committed"}, "isolation", "did you mean kafka.isolation.level?"),
        ({"path": "/tmp"}, "path", "is not known; remove it; there are subscribe,"),
        ({"startingOffsets": "latest"}, "startingOffsets", "start at earliest"),
        ({"startingOffsets": '{"c":{"0":-1}}'}, "startingOffsets", "start at earliest"),
        ({"startingOffsets": '{"c":{"0":-3}}'}, "startingOffsets", "c-0 has -3"),
        ({"startingOffsets": '{"c":{"0":true}}'}, "startingOffsets", 'write {"topic":{"0"'),
        ({"startingOffsets": '{"c":[0]}'}, "startingOffsets", 'write {"topic":{"0"'),
        ({"startingOffsets": "first"}, "startingOffsets", "earliest or latest"),
        ({"startingTimestamp": "today"}, "startingTimestamp", "milliseconds since 1970"),
        ({"startingTimestamp": "-1"}, "startingTimestamp", "milliseconds since 1970"),
        (
            {"startingOffsetsByTimestamp": '{"c":{"0":-1}}'},
            "startingOffsetsByTimestamp",
            "c-0 has -1; give milliseconds since 1970",
        ),
        (
            {"startingOffsetsByTimestampStrategy": "first"},
            "startingOffsetsByTimestampStrategy",
            "error or latest",
        ),
        ({"kafka.linger.ms": "5"}, "kafka.linger.ms", "is not known; remove it"),
        ({"kafka.isolation.lvl": "x"}, "kafka.isolation.lvl", "did you mean kafka.isolation.level"),
        ({"endingOffsets": "earliest"}, "endingOffsets", "end at latest"),
        ({"minPartitions": "0"}, "minPartitions", "whole number above 0"),
        ({"maxTriggerDelay": "soon"}, "maxTriggerDelay", "a number and its unit"),
        (
            {"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"},
            "minOffsetsPerTrigger",
            "is above maxOffsetsPerTrigger, 4",
        ),
        (
            {"kafka.auto.offset.reset": "earliest"},
            "kafka.auto.offset.reset",
            "set startingOffsets instead",
        ),
        ({"failOnDataLoss": "no"}, "failOnDataLoss", "true or false"),
        ({"columns": "value,size"}, "columns", "no column 'size', there are key, value,"),
        ({"columns": "value", "includeHeaders": "true"}, "includeHeaders", "clashes with columns"),
        ({"kafka.security.protocol": "SASL_SSL"}, "kafka.security.protocol", "PLAINTEXT listener"),
        ({"kafka.sasl.mechanism": "PLAIN"}, "kafka.sasl.mechanism", "PLAINTEXT listener"),
        ({"kafka.isolation.level": "x"}, "kafka.isolation.level", "or read_uncommitted"),
    ],
)
def test_an_error_names_the_option_and_the_remedy(
    changes: dict[str, str | None], option: str, words: str
) -> None:
    merged = {**NEEDED, **changes}
    options = {name: value for name, value in merged.items() if value is not None}
    with pytest.raises(OptionError) as caught:
        ReadOptions.parse(options)
    assert caught.value.option == option
    assert str(caught.value).startswith(f"option {option}: ")
    assert words in str(caught.value)


def test_a_stream_has_no_end() -> None:
    with pytest.raises(OptionError, match="endingOffsets: a stream has no end"):
        ReadOptions.parse({**NEEDED, "endingOffsets": "latest"}, is_stream=True)


def test_options_go_from_process_to_process() -> None:
    options = ReadOptions.parse({**NEEDED, "startingTimestamp": "5"})
    assert pickle.loads(pickle.dumps(options)) == options
