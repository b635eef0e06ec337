"""Transactions with Apache Kafka's own producer (version 2 of them) and tools."""

from __future__ import annotations

import json
import random
import re
import subprocess
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.kernel.internal_topics import TRANSACTION_STATE
from ottla.wire.messages.describe_transactions import DescribeTransactionsRequest
from tests.conftest import MakeBroker
from tests.support.counts import count
from tests.support.group_members import wait_until
from tests.support.internal_topics import formatted
from tests.support.need import need_apache_kafka
from tests.support.raw_client import RawClient
from tests.support.transactional_clients import TIMEOUT_S, ConfluentProducer, read_by_confluent
from tools.apache_kafka import quick_command, run_tool

PARTITION_COUNT = 2
TRANSACTION_SIZE = 20
SEED = 20_240_503


@pytest.fixture(autouse=True)
def apache_kafka_is_there() -> None:
    need_apache_kafka()


@pytest.fixture
def bootstrap(transactional_bootstrap: str) -> str:
    return transactional_bootstrap


def create(bootstrap: str, topic: str, partition_count: int = PARTITION_COUNT) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, partition_count, 1)])[topic].result(TIMEOUT_S)


def produce(bootstrap: str, topic: str, record_count: int) -> list[bytes]:
    """To each partition."""
    producer = Producer({"bootstrap.servers": bootstrap})
    values = [b"%d" % number for number in range(record_count)]
    for partition in range(PARTITION_COUNT):
        for value in values:
            producer.produce(topic, value, partition=partition)
    assert producer.flush(TIMEOUT_S) == 0
    return values


def transactions(bootstrap: str, command: str, *args: str) -> list[dict[str, str]]:
    """The table that the tool prints."""
    done = run_tool("transactions", "--bootstrap-server", bootstrap, command, *args)
    lines = [[cell.strip() for cell in line.split("\t")] for line in done.stdout.splitlines()]
    return [dict(zip(lines[0], line, strict=True)) for line in lines[1:] if any(line)]


class Copier:
    """Apache Kafka's TransactionalMessageCopier: a process that copies records with their offsets,
    some transactions of which it aborts."""

    def __init__(self, bootstrap: str, source: str, target: str, partition: int | None) -> None:
        """With a partition that one is assigned to it, else it is a member of a group."""
        self.transactional_id = f"{target}-{partition}"
        self._command = quick_command(
            "org.apache.kafka.tools.TransactionalMessageCopier",
            *("--broker-list", bootstrap, "--transactional-id", self.transactional_id),
            *("--input-topic", source, "--input-partition", str(partition or 0)),
            *(
                "--output-topic",
                target,
                "--consumer-group",
                target,
                "--transaction-size",
                str(TRANSACTION_SIZE),
            ),
            # Whoever comes after one that was killed waits for the offsets under way.
            *("--transaction-timeout", "5000", "--enable-random-aborts"),
            *(["--group-mode", "--use-group-metadata"] if partition is None else []),
        )
        self.start()

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True)

    def run_to(self, record_count: int) -> None:
        """Until it has copied so many in this life, or has reached the end."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if json.loads(line)["totalProcessed"] >= record_count:
                return

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()

    def finish(self) -> None:
        self._process.communicate(timeout=TIMEOUT_S)
        assert self._process.returncode == 0


@pytest.mark.timeout(300)
@pytest.mark.parametrize("is_member", [False, True], ids=["assigned", "in-a-group"])
def test_copier_that_is_killed(bootstrap: str, topic: str, is_member: bool) -> None:
    rng = random.Random(SEED)
    source, target = f"{topic}-source", f"{topic}-target"
    create(bootstrap, source)
    create(bootstrap, target)
    # In a group it takes ten seconds until the next one may go on.
    kill_count = count(full=3, quick=0) if is_member else count(full=10, quick=2)
    values = produce(bootstrap, source, 1000 + 400 * kill_count)
    partitions = [None] if is_member else list(range(PARTITION_COUNT))
    copiers = [Copier(bootstrap, source, target, partition) for partition in partitions]
    try:
        for _ in range(kill_count):
            for copier in copiers:
                copier.run_to(rng.randrange(400))
                copier.kill()
                copier.start()
        for copier in copiers:
            copier.finish()
    finally:
        for copier in copiers:
            copier.kill()
    expected = dict.fromkeys(range(PARTITION_COUNT), values)
    assert read_by_confluent(bootstrap, target, PARTITION_COUNT, "read_committed") == expected
    (state,) = transactions(
        bootstrap, "describe", "--transactional-id", copiers[0].transactional_id
    )
    # Empty where all was copied before the last start.
    assert state["TransactionState"] in ("Empty", "CompleteCommit", "CompleteAbort")
    # Of version 2 (KIP-890): every end of a transaction gives the producer its next epoch. About a
    # third of them are aborts, often before a record was sent.
    commit_count = len(values) * (PARTITION_COUNT // len(copiers)) // TRANSACTION_SIZE
    assert int(state["ProducerEpoch"]) > commit_count + 3 * (1 + kill_count)


def console_consumer(bootstrap: str, topic: str, record_count: int, *more: str) -> str:
    done = run_tool(
        "console-consumer",
        *("--bootstrap-server", bootstrap, "--topic", topic, "--from-beginning"),
        *("--max-messages", str(record_count), "--timeout-ms", "30000", *more),
    )
    return done.stdout


def test_console_consumer_by_isolation_level(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic, 1)
    producer = ConfluentProducer(bootstrap, topic)
    for values, end in (
        ([b"a", b"b"], producer.commit),
        ([b"c", b"d"], producer.abort),
        ([b"e", b"f"], producer.commit),
    ):
        producer.begin()
        producer.send(topic, 0, *values)
        end()
    producer.close()
    for isolation, expected in (("read_committed", "abef"), ("read_uncommitted", "abcdef")):
        found = console_consumer(bootstrap, topic, len(expected), "--isolation-level", isolation)
        assert found.split() == list(expected)


def test_performance_tool_with_transactions(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic)
    done = run_tool(
        "producer-perf",
        *("--topic", topic, "--num-records", "20000", "--record-size", "100"),
        *("--throughput", "-1", "--transactional-id", topic, "--transaction-duration-ms", "200"),
        *("--command-property", f"bootstrap.servers={bootstrap}"),
    )
    assert "20000 records sent" in done.stdout
    found = read_by_confluent(bootstrap, topic, PARTITION_COUNT, "read_committed")
    assert sum(map(len, found.values())) == 20_000


def test_transactions_are_listed_and_described(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic)
    producer = ConfluentProducer(bootstrap, topic, timeout_ms=50_000)
    producer.begin()
    producer.send(topic, 0, b"committed")
    producer.commit()
    producer.begin()
    producer.send(topic, 0, b"open", b"open")
    producer.send(topic, 1, b"open")
    (listed,) = transactions(bootstrap, "list", "--transactional-id-pattern", re.escape(topic))
    assert (listed["TransactionalId"], listed["Coordinator"]) == (topic, "1")
    assert listed["TransactionState"] == "Ongoing"
    (described,) = transactions(bootstrap, "describe", "--transactional-id", topic)
    assert described["ProducerId"] == listed["ProducerId"]
    assert described["TransactionState"] == "Ongoing"
    assert described["TransactionTimeoutMs"] == "50000"
    assert int(described["TransactionDurationMs"]) > 0
    assert sorted(described["TopicPartitions"].split(",")) == [f"{topic}-0", f"{topic}-1"]
    partition = ["--topic", topic, "--partition", "0"]
    (one,) = transactions(bootstrap, "describe-producers", *partition)
    assert one["ProducerId"] == listed["ProducerId"]
    assert one["ProducerEpoch"] == described["ProducerEpoch"]
    assert (one["LastSequence"], one["CurrentTransactionStartOffset"]) == ("2", "2")
    assert topic not in str(
        transactions(bootstrap, "find-hanging", *partition, "--max-transaction-timeout", "0")
    ), "the coordinator knows of it"
    run_tool(
        "transactions",
        *("--bootstrap-server", bootstrap, "forceTerminateTransaction"),
        *("--transactionalId", topic),
    )
    (one,) = transactions(bootstrap, "describe-producers", *partition)
    assert one["CurrentTransactionStartOffset"] == "None"
    found = read_by_confluent(bootstrap, topic, PARTITION_COUNT, "read_committed")
    assert found == {0: [b"committed"], 1: []}
    producer.close()


def test_a_hanging_transaction_is_found_and_aborted(make_broker: MakeBroker, topic: str) -> None:
    """One that a partition has and no coordinator knows: here its records are taken away."""
    broker = make_broker()
    create(broker.bootstrap, topic)
    producer = ConfluentProducer(broker.bootstrap, topic)
    producer.begin()
    producer.send(topic, 0, b"hanging", b"hanging")
    broker.stop()
    for folder in broker.data_dir.glob("__transaction_state-*"):
        for path in folder.glob("0*"):
            path.unlink()
    broker.start()
    plain = Producer({"bootstrap.servers": broker.bootstrap})
    plain.produce(topic, b"behind it", partition=0)
    assert plain.flush(TIMEOUT_S) == 0
    assert read_by_confluent(broker.bootstrap, topic, 1, "read_committed") == {0: []}
    (found,) = transactions(
        broker.bootstrap, "find-hanging", "--broker-id", "1", "--max-transaction-timeout", "0"
    )
    assert (found["Topic"], found["Partition"], found["StartOffset"]) == (topic, "0", "0")
    run_tool(
        "transactions",
        *("--bootstrap-server", broker.bootstrap, "abort"),
        *("--topic", topic, "--partition", "0", "--start-offset", "0"),
    )
    assert read_by_confluent(broker.bootstrap, topic, 1, "read_committed") == {0: [b"behind it"]}
    producer.close()


def state_of(bootstrap: str, transactional_id: str) -> str:
    request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
    with RawClient(bootstrap) as client:
        (described,) = client.ask(request, 0).transaction_states
        return str(described.transaction_state)


def test_the_formatter_reads_what_the_coordinator_writes(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic)
    producer = ConfluentProducer(bootstrap, topic)
    for end in (producer.commit, producer.abort):
        producer.begin()
        producer.send(topic, 1, b"v")
        end()
    producer.close()
    wait_until(lambda: state_of(bootstrap, topic) == "CompleteAbort", "its markers are written")
    found = formatted(bootstrap, TRANSACTION_STATE, topic, "TransactionLogMessageFormatter")
    key = {"type": 0, "data": {"transactionalId": topic}}
    states: list[Any] = [one["value"]["data"] for one in found if one["key"] == key]
    # Empty, Ongoing, PrepareCommit, CompleteCommit, Ongoing, PrepareAbort, CompleteAbort
    assert [one["transactionStatus"] for one in states] == [0, 1, 2, 4, 1, 3, 5]
    assert states[1]["transactionPartitions"] == [{"topic": topic, "partitionIds": [1]}]
    assert {one["transactionTimeoutMs"] for one in states} == {60_000}


def test_the_feature_is_finalized(bootstrap: str) -> None:
    output = run_tool("features", "--bootstrap-server", bootstrap, "describe").stdout
    (line,) = [line for line in output.splitlines() if "transaction.version" in line]
    words = line.split()
    assert words[words.index("SupportedMinVersion:") + 1] == "0"
    assert words[words.index("SupportedMaxVersion:") + 1] == "2"
    assert words[words.index("FinalizedVersionLevel:") + 1] == "2"
