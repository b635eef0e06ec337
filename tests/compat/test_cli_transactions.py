"""`ottla transactions` as a user runs it: a process each, with real producers, and with some that
leave a transaction hanging."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Producer

from ottla.kernel.errors import ErrorCode
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from tests.compat.test_cli import Cli
from tests.conftest import stop_all
from tests.support.need import need_apache_kafka
from tests.support.ottla_process import OttlaProcess
from tests.support.side_by_side import Subject, a_batch
from tools.apache_kafka import ApacheKafkaBroker, run_class

_TIMEOUT_S = 30
_TWENTY_MINUTES_MS = 20 * 60_000
_READ_COMMITTED = 1

# Brokers of today ask the coordinator before they let a transaction begin in a partition (KIP-890).
# Without that transactions hang as they did on those of old.
_SETTINGS = {"transaction.partition.verification.enable": "false"}


@pytest.fixture(scope="module", params=["Ottla", "Apache Kafka"])
def cli(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cli]:
    folder = tmp_path_factory.mktemp("unverified")
    if request.param == "Ottla":
        process = OttlaProcess(folder, settings=_SETTINGS)
        process.start()
        yield Cli(process.bootstrap, process.data_dir)
        stop_all([process], request.config)
    else:
        need_apache_kafka()
        with ApacheKafkaBroker(folder, settings=_SETTINGS, heap_mb=512) as kafka:
            yield Cli(kafka.bootstrap, kafka.log_dir)


@pytest.fixture
def subject(cli: Cli) -> Iterator[Subject]:
    with Subject("the broker", cli.bootstrap) as subject:
        yield subject


@contextmanager
def open_transaction(cli: Cli, transactional_id: str, topic: str) -> Iterator[Producer]:
    """One record in each of two partitions."""
    producer = Producer({"bootstrap.servers": cli.bootstrap, "transactional.id": transactional_id})
    producer.init_transactions(_TIMEOUT_S)
    producer.begin_transaction()
    for partition in (0, 1):
        producer.produce(topic, b"v", partition=partition)
    assert producer.flush(_TIMEOUT_S) == 0
    yield producer


def listed(cli: Cli, transactional_id: str, *filters: str) -> dict[str, Any] | None:
    found = {one["transactional_id"]: one for one in cli.json("transactions", "list", *filters)}
    return found.get(transactional_id)


class Hanging(NamedTuple):
    producer_id: int
    producer_epoch: int
    timestamp_ms: int


def hang(subject: Subject, topic: str, *, age_ms: int = _TWENTY_MINUTES_MS) -> Hanging:
    """A record in partition 0 that no coordinator knows of."""
    request = InitProducerIdRequest(transactional_id=f"id-{topic}", transaction_timeout_ms=60_000)
    deadline_s = time.monotonic() + _TIMEOUT_S
    # That makes the topic of the coordinator, unless another test has.
    subject.ask(FindCoordinatorRequest(key=f"id-{topic}", key_type=1), 3)
    while (found := subject.ask(request, 4)).error_code:
        assert time.monotonic() < deadline_s, ErrorCode(found.error_code)
        time.sleep(0.1)
    timestamp_ms = int(time.time() * 1000) - age_ms
    batch = a_batch(
        timestamp=timestamp_ms,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        base_sequence=0,
        is_transactional=True,
    )
    answer = subject.produce(topic, batch, version=11, transactional_id=f"id-{topic}")
    assert answer.error_code == 0
    return Hanging(found.producer_id, found.producer_epoch, timestamp_ms)


def stable_offset(subject: Subject, topic: str) -> int:
    answer = subject.fetch(topic, isolation_level=_READ_COMMITTED)
    return int(answer.responses[0].partitions[0].last_stable_offset)


# --- list and describe -------------------------------------------------------------------------


def test_a_transaction_from_begin_to_commit(cli: Cli, subject: Subject, topic: str) -> None:
    subject.create(topic, 2)
    name = f"id-{topic}"
    with open_transaction(cli, name, topic) as producer:
        entry = listed(cli, name)
        assert entry is not None
        assert entry["state"] == "Ongoing"
        (described,) = cli.json("transactions", "describe", name)
        text = cli.out("transactions", "describe", name)
        producers = cli.json("transactions", "describe", "--topic", topic, "--partition", "1")
        table = cli.out("transactions", "describe", "-t", topic, "-p", "1").splitlines()
        producer.commit_transaction(_TIMEOUT_S)

    assert described["state"] == "Ongoing"
    assert described["producer_id"] == entry["producer_id"]
    assert described["producer_epoch"] >= 0
    assert described["transaction_timeout_ms"] == 60_000
    assert described["coordinator"]["id"] == entry["coordinator_id"]
    assert abs(time.time() * 1000 - described["start_time_ms"]) < 60_000
    assert 0 <= described["duration_ms"] < 60_000
    assert sorted(part["partition"] for part in described["partitions"]) == [0, 1]
    assert {part["topic"] for part in described["partitions"]} == {topic}
    assert text.splitlines()[0] == name
    assert "state           Ongoing" in text
    assert "time-out        1 min" in text
    (active,) = producers["producers"]
    assert active["producer_id"] == entry["producer_id"]
    assert active["producer_epoch"] == described["producer_epoch"]
    assert (active["start_offset"], active["last_sequence"]) == (0, 0)
    assert producers["broker_id"] == entry["coordinator_id"]
    assert table[1].split()[0] == str(entry["producer_id"])

    deadline_s = time.monotonic() + _TIMEOUT_S
    while (entry := listed(cli, name)) is None or entry["state"] != "CompleteCommit":
        assert time.monotonic() < deadline_s, entry
    (described,) = cli.json("transactions", "describe", name)
    assert described["partitions"] == []
    (active,) = cli.json("transactions", "describe", "-t", topic, "-p", "1")["producers"]
    assert active["start_offset"] is None


def test_filters(cli: Cli, subject: Subject, topic: str) -> None:
    subject.create(topic, 2)
    name = f"id-{topic}"
    with open_transaction(cli, name, topic) as producer:
        entry = listed(cli, name)
        assert entry is not None
        producer_id = str(entry["producer_id"])

        assert listed(cli, name, "--state", "ongoing", "--state", "Empty") == entry
        assert listed(cli, name, "--state", "CompleteAbort") is None
        assert listed(cli, name, "--producer-id", producer_id) == entry
        assert listed(cli, name, "--producer-id", "999999") is None
        assert listed(cli, name, "--running-longer-than", "0s") == entry
        assert listed(cli, name, "--running-longer-than", "1h") is None
        assert listed(cli, name, "--transactional-id-pattern", f"id-.*{topic[-8:]}") == entry
        assert listed(cli, name, "--transactional-id-pattern", topic) is None
        line = next(
            line for line in cli.out("transactions", "list").splitlines() if line.startswith(name)
        )
        assert line.split() == [name, str(entry["coordinator_id"]), producer_id, "Ongoing"]
        producer.abort_transaction(_TIMEOUT_S)


def test_what_is_not_there_is_said(cli: Cli, subject: Subject, topic: str) -> None:
    subject.create(topic)
    describe = ("transactions", "describe")
    assert f"there is no transactional id 'id-{topic}'" in cli.fails(*describe, f"id-{topic}")
    assert "there is no topic" in cli.fails(*describe, "-t", f"{topic}-not", "-p", "0")
    assert "there is no partition 1 of" in cli.fails(*describe, "-t", topic, "-p", "1")
    one = (*describe, "-t", topic, "-p", "0")
    assert "there is no broker 77; there are " in cli.fails(*one, "--broker-id", "77")
    assert cli.json(*one)["producers"] == []
    abort = ("transactions", "abort", "-t", topic, "-p", "0", "--start-offset", "0")
    assert f"no such transaction is open in {topic}:0; none is" in cli.fails(*abort)
    listing = ("transactions", "list", "--transactional-id-pattern", "(")
    assert "INVALID_REGULAR_EXPRESSION" in cli.fails(*listing)


# --- find-hanging and abort --------------------------------------------------------------------


def test_a_hanging_transaction_is_found_and_aborted(cli: Cli, subject: Subject, topic: str) -> None:
    subject.create(topic)
    producer_id, producer_epoch, timestamp_ms = hang(subject, topic)
    assert subject.produce(topic, a_batch(b"waits behind it")).error_code == 0
    assert stable_offset(subject, topic) == 0

    (found,) = cli.json("transactions", "find-hanging", "--topic", topic)
    assert (found["topic"], found["partition"], found["start_offset"]) == (topic, 0, 0)
    assert (found["producer_id"], found["producer_epoch"]) == (producer_id, producer_epoch)
    assert found["transactional_id"] == f"id-{topic}"
    assert found["duration_ms"] >= _TWENTY_MINUTES_MS
    assert found["last_timestamp_ms"] == timestamp_ms
    (row,) = cli.out("transactions", "find-hanging", "--topic", topic).splitlines()[1:]
    assert row.split()[:5] == [topic, "0", "0", str(producer_id), str(producer_epoch)]
    in_partition = ("transactions", "find-hanging", "--topic", topic, "--partition", "0")
    assert [one["topic"] for one in cli.json(*in_partition)] == [topic]
    anywhere = ("transactions", "find-hanging", "--broker-id", str(_broker_id(cli)))
    assert topic in [one["topic"] for one in cli.json(*anywhere)]
    assert topic in [one["topic"] for one in cli.json("transactions", "find-hanging")]

    abort = ("transactions", "abort", "-t", topic, "-p", "0", "--start-offset", "0")
    planned = cli(*abort)
    assert b"nothing was changed; --execute does it" in planned.stderr
    assert f"has 'id-{topic}' as Empty" in planned.stdout.decode()
    assert "open are those from 0" in cli.fails(*abort[:-1], "1", "--execute")
    assert stable_offset(subject, topic) == 0

    done = cli.json(*abort, "--execute")
    assert done["executed"]
    assert (done["producer_id"], done["producer_epoch"]) == (producer_id, producer_epoch)
    assert stable_offset(subject, topic) == 3, "the record, the one behind it, the marker"
    (aborted,) = _aborted(subject, topic)
    assert (aborted.producer_id, aborted.first_offset) == (producer_id, 0)
    assert cli.json("transactions", "find-hanging", "--topic", topic) == []
    assert "none is" in cli.fails(*abort, "--execute")


def test_a_hanging_transaction_is_aborted_by_its_producer(
    cli: Cli, subject: Subject, topic: str
) -> None:
    subject.create(topic)
    producer_id, producer_epoch, _ = hang(subject, topic)
    where = ("transactions", "abort", "--topic", topic, "--partition", "0")
    who = ("--producer-id", str(producer_id), "--coordinator-epoch", "-1")

    other_epoch = cli.fails(*where, *who, "--producer-epoch", str(producer_epoch + 1))
    assert "no such transaction is open" in other_epoch
    out = cli.out(*where, *who, "--producer-epoch", str(producer_epoch), "--execute")

    assert out.splitlines()[-1] == "aborted from offset 0"
    assert stable_offset(subject, topic) == 2


def test_kafkas_own_tool_finds_the_same(cli: Cli, subject: Subject, topic: str) -> None:
    need_apache_kafka()
    subject.create(topic)
    producer_id = hang(subject, topic).producer_id
    command = ("org.apache.kafka.tools.TransactionsCommand", "--bootstrap-server", cli.bootstrap)

    found = run_class(*command, "find-hanging", "--topic", topic).stdout
    assert [topic, "0", str(producer_id)] in [line.split()[:3] for line in found.splitlines()]

    run_class(*command, "abort", "--topic", topic, "--partition", "0", "--start-offset", "0")
    assert cli.json("transactions", "find-hanging", "--topic", topic) == []
    assert stable_offset(subject, topic) == 2


def test_what_its_coordinator_will_end_does_not_hang(
    cli: Cli, subject: Subject, topic: str
) -> None:
    subject.create(topic, 2)
    name = f"id-{topic}"
    search = ("transactions", "find-hanging", "--topic", topic, "--max-transaction-timeout", "0")
    with open_transaction(cli, name, topic) as producer:
        assert cli.json(*search) == []
        abort = ("transactions", "abort", "-t", topic, "-p", "0", "--start-offset", "0")
        refusal = cli.fails(*abort, "--execute")
        assert f"this transaction of '{name}' does not hang" in refusal
        assert "Ongoing and will end it" in refusal
        assert cli.json(*abort, "--force")["executed"] is False
        producer.commit_transaction(_TIMEOUT_S)
    assert _aborted(subject, topic) == []


def test_a_young_one_is_not_suspect(cli: Cli, subject: Subject, topic: str) -> None:
    subject.create(topic)
    hang(subject, topic, age_ms=120_000)

    search = ("transactions", "find-hanging", "--topic", topic)
    assert cli.json(*search) == []
    (found,) = cli.json(*search, "--max-transaction-timeout", "1")
    assert found["start_offset"] == 0
    abort = ("transactions", "abort", "-t", topic, "-p", "0", "--start-offset", "0", "--execute")
    assert cli.json(*abort)["executed"]


def _broker_id(cli: Cli) -> int:
    (described,) = cli.json("topics", "describe", "__transaction_state")
    return int(described["partitions"][0]["leader"])


def _aborted(subject: Subject, topic: str) -> list[Any]:
    answer = subject.fetch(topic, isolation_level=_READ_COMMITTED)
    return answer.responses[0].partitions[0].aborted_transactions or []
