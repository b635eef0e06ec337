from __future__ import annotations

import pickle

import pytest

from ottla.pipeline.rows.encode import BATCH_BYTES
from ottla.pipeline.sink.write_options import WriteOptions
from ottla.pipeline.source.given_options import OptionError
from ottla.records.compression import Compression

NEEDED = {"kafka.bootstrap.servers": "a:9092"}


def test_the_defaults_are_a_plain_write() -> None:
    options = WriteOptions.parse(NEEDED)
    assert options.connection.bootstrap == (("a", 9092),)
    assert options.connection.retry_timeout_s == 120
    assert options.connection.retry_option == "kafka.delivery.timeout.ms"
    assert (options.topic, options.has_timestamps) == (None, False)
    assert (options.compression, options.batch_bytes) == (Compression.NONE, BATCH_BYTES)
    assert (options.transactional_id, options.group_id, options.checkpoint) == (None, None, None)


def test_names_are_those_of_sparks_sink_in_any_case() -> None:
    options = WriteOptions.parse(
        {
            "KAFKA.bootstrap.servers": "a:9092",
            "topic": "clicks",
            "includetimestamp": "true",
            "kafka.acks": "all",
            "kafka.compression.type": "zstd",
            "kafka.batch.size": "65536",
            "kafka.delivery.timeout.ms": "2500",
            "kafka.transactional.id": "mine",
            "kafka.transaction.timeout.ms": "9000",
            "checkpointlocation": "/somewhere",
            "queryname": "of Spark",
        }
    )
    assert (options.topic, options.has_timestamps) == ("clicks", True)
    assert (options.compression, options.batch_bytes) == (Compression.ZSTD, 65536)
    assert options.connection.retry_timeout_s == 2.5
    assert (options.transactional_id, options.transaction_timeout_ms) == ("mine", 9000)
    assert options.checkpoint == "/somewhere"
    assert pickle.loads(pickle.dumps(options)) == options


def test_what_only_tunes_kafkas_producer_changes_nothing() -> None:
    tuned = {"kafka.linger.ms": "50", "kafka.buffer.memory": "9", "kafka.retries": "3"}
    tuned |= {
        "kafka.enable.idempotence": "true",
        "kafka.max.request.size": "1",
        "includeHeaders": "true",
    }
    assert WriteOptions.parse({**NEEDED, **tuned}) == WriteOptions.parse(NEEDED)


def test_the_group_is_named_as_the_transactions_unless_it_has_a_name() -> None:
    transactional = {**NEEDED, "kafka.transactional.id": "mine"}
    assert WriteOptions.parse(transactional).group_id == "mine"
    assert WriteOptions.parse({**transactional, "kafka.group.id": "other"}).group_id == "other"


@pytest.mark.parametrize(
    ("changes", "option", "words"),
    [
        ({"kafka.bootstrap.servers": None}, "kafka.bootstrap.servers", "is missing"),
        ({"topics": "a"}, "topics", "did you mean topic?"),
        ({"subscribe": "a"}, "subscribe", "is not known"),
        ({"includeHeaders": "yes"}, "includeHeaders", "true or false"),
        ({"kafka.key.serializer": "a"}, "kafka.key.serializer", "keys are bytes or text"),
        ({"kafka.partitioner.class": "a"}, "kafka.partitioner.class", "fill column partition"),
        ({"kafka.max.poll.records": "5"}, "kafka.max.poll.records", "is not known; remove it"),
        ({"topic": " "}, "topic", "give it a name"),
        ({"kafka.acks": "1"}, "kafka.acks", "set it to all"),
        ({"kafka.compression.type": "rar"}, "kafka.compression.type", "none, gzip, snappy, lz4"),
        ({"kafka.batch.size": "0"}, "kafka.batch.size", "above 0"),
        ({"includeTimestamp": "yes"}, "includeTimestamp", "true or false"),
        ({"kafka.transactional.id": ""}, "kafka.transactional.id", "give it a name"),
        ({"kafka.group.id": "a"}, "kafka.group.id", "set kafka.transactional.id too"),
        (
            {"kafka.transaction.timeout.ms": "1"},
            "kafka.transaction.timeout.ms",
            "set kafka.transactional.id too",
        ),
        ({"kafka.security.protocol": "SSL"}, "kafka.security.protocol", "PLAINTEXT listener"),
    ],
)
def test_an_error_names_the_option_and_the_remedy(
    changes: dict[str, str | None], option: str, words: str
) -> None:
    merged = {**NEEDED, **changes}
    with pytest.raises(OptionError) as caught:
        WriteOptions.parse({name: value for name, value in merged.items() if value is not None})
    assert caught.value.option == option
    assert words in str(caught.value)
