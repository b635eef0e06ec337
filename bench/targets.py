"""What is measured, how it is shown, and what it has to reach. Data only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

# Two equal brokers measured this way differ by this much on a small shared machine.
NOISE = 0.3


@dataclass(frozen=True, slots=True)
class Row:
    """A measure. A target is a limit on Ottla's value divided by Apache Kafka's."""

    key: str
    title: str
    unit: str
    at_least: float | None = None
    at_most: float | None = None
    value_at_most: float | None = None
    """A limit on Ottla's value itself, besides the ratio."""
    noise: float = NOISE


def _transaction_rows() -> Iterator[Row]:
    for kind, name in (("rdkafka", "librdkafka"), ("raw", "10 raw producers")):
        for count in (1, 10, 100):
            title = f"{name}, {count} a transaction"
            yield Row(f"txn_{kind}_{count}", title, "1/s", at_least=1.5)
    for kind, name in (("rdkafka", "librdkafka"), ("raw", "raw producer")):
        for count in (1, 10, 100):
            for share in (50, 99):
                title = f"{name}, {count} a transaction until read, p{share}"
                yield Row(f"txn_{kind}_{count}_p{share}_us", title, "µs", at_most=1.0)


def _cluster_rows() -> Iterator[Row]:
    for kind, name in (("java", "Java"), ("rdkafka", "librdkafka")):
        for size, text, unit in (("100b", "100 B", "k records/s"), ("1kb", "1 KB", "MB/s")):
            title = f"3 brokers, 3 replicas: {name} produce {text}, acks=all"
            yield Row(f"cluster_{kind}_{size}", title, unit, at_least=1.5)
    yield Row("cluster_memory_mb", "3 brokers: memory under load, peak", "MB", at_most=1 / 6)
    for share in (50, 99):
        title = f"3 brokers: acks=all at 1,000 records/s, p{share}"
        yield Row(f"cluster_p{share}_us", title, "µs", at_most=0.5)
    yield Row("catch_up_mb", "a follower catches up", "MB/s", at_least=1.0)
    yield Row("fail_over_s", "kill -9 of a leader until the next acknowledgement", "s")
    for end, count in (("", "1,000"), ("_10k", "10,000")):
        title = f"{count} partitions created"
        yield Row(f"controller_create{end}_s", title, "s", at_most=1.0)
        title = f"{count} partitions failed over after kill -9"
        yield Row(f"controller_fail_over{end}_s", title, "s")
        yield Row(f"controller_move{end}_s", f"{count} partitions moved", "s")
        title = f"controlled shutdown with {count} partitions"
        limit_s = 5.0 if count == "1,000" else None
        yield Row(f"controller_shutdown{end}_s", title, "s", value_at_most=limit_s)


_FIRST = "empty data dir until a group's first record, {}"

ROWS = (
    Row("start_s", "start until metadata is answered", "s", at_most=0.1, value_at_most=0.15),
    Row("start_empty_s", "the same on an empty data dir", "s", at_most=0.1, value_at_most=0.15),
    Row("start_empty_cpu_s", "the broker's CPU until that", "s"),
    Row("first_rdkafka_s", _FIRST.format("librdkafka"), "s", at_most=0.2, value_at_most=0.6),
    Row("first_java_s", _FIRST.format("Java"), "s", at_most=1.0),
    Row("first_aiokafka_s", _FIRST.format("aiokafka"), "s", at_most=1.0),
    Row("first_rdkafka_cpu_s", "the broker's CPU until that, librdkafka", "s"),
    Row("memory_idle_mb", "memory idle", "MB", at_most=1 / 6, value_at_most=22.0, noise=0.0),
    Row("memory_shards_mb", "memory idle, with 50 partitions of offsets", "MB", at_most=1 / 6),
    Row("memory_load_mb", "memory under load, peak", "MB", at_most=1 / 6, noise=0.0),
    Row("java_produce_100b", "Java produce 100 B, acks=1", "k records/s", at_least=2.0),
    Row("java_produce_1kb", "Java produce 1 KB, acks=all, idempotent", "MB/s", at_least=2.0),
    Row("java_consume_100b", "Java consume 100 B", "k records/s", at_least=1.0),
    Row("rdkafka_produce_1kb", "librdkafka produce 1 KB", "MB/s", at_least=1.4),
    Row("rdkafka_consume_1kb", "librdkafka consume 1 KB", "MB/s", at_least=1.2),
    Row("small_requests_1", "one-record requests, 1 connection", "k/s", at_least=4.0),
    Row("small_requests_16", "one-record requests, 16 connections", "k/s", at_least=1.5),
    Row("small_requests_100", "one-record requests, 100 connections", "k/s", at_least=0.8),
    Row("sync_p50_us", "sync produce p50", "µs", at_most=1.0),
    Row("sync_p99_us", "sync produce p99", "µs", at_most=0.8),
    Row("sync_p999_us", "sync produce p99.9", "µs"),
    Row("group_start_ms", "50 members, 200 partitions: start until stable", "ms", at_most=1.0),
    Row("group_kill_ms", "one killed: stable after its session ended", "ms", at_most=1.0),
    Row("commit_p50_us", "100 groups commit every 100 ms, p50", "µs", at_most=1.0),
    Row("commit_p99_us", "100 groups commit every 100 ms, p99", "µs", at_most=1.0),
    *_transaction_rows(),
    Row("offsets_load_s", "start until 1,000,000 offsets are loaded", "s"),
    Row("loading_p99_us", "sync produce p99 while they load", "µs"),
    Row("loaded_p999_us", "sync produce p99.9 with them loaded", "µs"),
    Row("produce_1000_partitions", "CPU a produce, 1,000 partitions / 1", "x", at_most=1.0),
    Row("fetch_1000_partitions", "CPU a fetch, session of 1,000 partitions / 1", "x", at_most=1.0),
    Row("produce_1000_connections", "CPU a produce, 1,000 connections / 1", "x", at_most=1.0),
    Row("produce_1_us", "CPU a produce, 1 connection and partition", "µs"),
    Row("fetch_1_us", "CPU a fetch, session of 1 partition", "µs"),
    Row("pipeline_start_s", "activity pipeline until its first result", "s", value_at_most=10.0),
    Row("pipeline_cpu_s", "CPU of Spark until that", "s"),
    Row("cold_p99_us", "produce p99 beside a cold read of 5 GB", "µs", at_most=1.0),
    Row("cold_p50_us", "produce p50 beside it", "µs"),
    Row("cold_read_mb", "the cold read itself", "MB/s"),
    Row("large_p99_us", "produce p99 beside requests of 20,000 names", "µs", at_most=1.0),
    Row("large_p50_us", "produce p50 beside them", "µs"),
    *_cluster_rows(),
)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two ways of work on one broker: the row's own, and another. The target is a limit on the
    former divided by the latter."""

    row: Row
    beside: str
    beside_key: str


_TUNED = "Spark's connector, tuned"
_DEFAULT = "Spark's connector"
_TUPLES = "confluent-kafka tuples"
_ROWS_A_SECOND = "k rows/s"


def _spark_rows() -> Iterator[Comparison]:
    ways = (
        (_TUNED, "tuned", 1.2, 1.1),
        (_DEFAULT, "jvm", None, None),
        (_TUPLES, "tuples", None, None),
    )
    for name, way, at_least_in, _ in ways:
        row = Row("spark_in_ottla", "rows into Spark", _ROWS_A_SECOND, at_least=at_least_in)
        yield Comparison(row, name, f"spark_in_{way}")
    row = Row("spark_in_value_ottla", "values into Spark", _ROWS_A_SECOND)
    yield Comparison(row, _TUNED, "spark_in_value_tuned")
    for name, way, _, at_least_out in ways:
        row = Row("spark_out_ottla", "rows out of Spark", _ROWS_A_SECOND, at_least=at_least_out)
        yield Comparison(row, name, f"spark_out_{way}")
    row = Row("spark_once", "rows out, exactly once", _ROWS_A_SECOND, at_least=0.7)
    yield Comparison(row, "rows out, plain, as a stream", "spark_plain")
    for partitions in (1, 10, 100):
        key = f"spark_batch_{partitions}"
        title = f"micro-batch, {partitions} partition" + ("s" if partitions > 1 else "")
        row = Row(f"{key}_ottla", title, "ms", at_most=1.3)
        yield Comparison(row, _DEFAULT, f"{key}_kafka")
    for partitions in (10, 100):
        row = Row(f"spark_batch_{partitions}_ottla", f"micro-batch, {partitions} partitions", "ms")
        yield Comparison(row, "1 partition", "spark_batch_1_ottla")
    row = Row("spark_in_ottla", "rows into Spark, 2 cores", _ROWS_A_SECOND)
    yield Comparison(row, "1 core", "spark_in_1_core")


COMPARISONS = (
    *_spark_rows(),
    Comparison(
        Row("brokers_2_mb", "librdkafka produce 1 KB, 2 brokers", "MB/s"),
        "1 broker",
        "brokers_1_mb",
    ),
)

CEILING_ROWS = (
    Row("ceiling_in_mb", "loopback socket into a file", "MB/s"),
    Row("ceiling_out_mb", "file back into the socket, sendfile", "MB/s"),
    Row("ceiling_requests_1", "our load generator, 1 connection", "k/s"),
    Row("ceiling_requests_16", "our load generator, 16 connections", "k/s"),
    Row("ceiling_requests_100", "our load generator, 100 connections", "k/s"),
    Row("ceiling_java_100b", "Java produce 100 B, acks=1, to nobody", "k records/s"),
    Row("ceiling_java_1kb", "Java produce 1 KB, acks=all, idempotent, to nobody", "MB/s"),
    Row("ceiling_sync_p50_us", "our sync client p50", "µs"),
    Row("ceiling_sync_p99_us", "our sync client p99", "µs"),
)


def ratio(ottla: float, kafka: float) -> float:
    return ottla / kafka if kafka else float("inf")


def verdict(row: Row, ottla: float, kafka: float, spread: float) -> str:
    """Empty when the row has no target. `spread` is the highest value of a broker over its
    lowest, less one: where rounds differ by more than the usual noise, that is the noise."""
    quotient = ratio(ottla, kafka)
    if row.value_at_most is not None and ottla > row.value_at_most:
        return "missed"
    if row.at_least is not None:
        margin = quotient / row.at_least
    elif row.at_most is not None:
        margin = row.at_most / quotient if quotient else float("inf")
    else:
        return ""
    word = "reached" if margin >= 1 else "missed"
    noise = max(row.noise, spread)
    is_noise = noise > 0 and 1 / (1 + noise) < margin < 1 + noise
    return f"{word}, within noise" if is_noise else word


def target_text(row: Row) -> str:
    if row.at_least is not None:
        return f"≥ {row.at_least:g}"
    if row.at_most is None:
        return ""
    text = f"≤ {row.at_most:.3g}"
    return f"{text}, ≤ {row.value_at_most:g} {row.unit}" if row.value_at_most else text
