"""The tools as a user runs them: a process each, against Ottla and against Apache Kafka."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ottla import __version__
from tests.support.side_by_side import SUBJECTS

_TIMEOUT_S = 60


class Cli:
    """`ottla ...` with OTTLA_BOOTSTRAP set."""

    def __init__(self, bootstrap: str, data_dir: Path) -> None:
        self.bootstrap = bootstrap
        self.data_dir = data_dir
        self.environment = {**os.environ, "OTTLA_BOOTSTRAP": bootstrap}

    def __call__(
        self, *args: str, stdin: bytes = b"", exit_code: int = 0
    ) -> subprocess.CompletedProcess[bytes]:
        done = subprocess.run(
            [sys.executable, "-m", "ottla", *args],
            input=stdin,
            capture_output=True,
            env=self.environment,
            timeout=_TIMEOUT_S,
            check=False,
        )
        assert done.returncode == exit_code, done.stderr.decode()
        assert b"Traceback" not in done.stderr
        return done

    def out(self, *args: str, stdin: bytes = b"") -> str:
        return self(*args, stdin=stdin).stdout.decode()

    def json(self, *args: str) -> Any:
        return json.loads(self.out(*args, "--json"))

    def fails(self, *args: str, stdin: bytes = b"") -> str:
        """What it says when it ends with 1: one line."""
        err = self(*args, stdin=stdin, exit_code=1).stderr.decode()
        assert err.startswith("ottla: ")
        assert err.count("\n") == 1, err
        return err

    def start(self, *args: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "ottla", *args],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.environment,
        )


@pytest.fixture(params=SUBJECTS)
def cli(request: pytest.FixtureRequest) -> Cli:
    if request.param == "Ottla":
        broker = request.getfixturevalue("shared_broker")
        return Cli(broker.bootstrap, broker.data_dir)
    kafka = request.getfixturevalue("apache_kafka")
    return Cli(kafka.bootstrap, kafka.log_dir)


def read_all(cli: Cli, topic: str, *args: str) -> list[dict[str, Any]]:
    out = cli.out("consume", topic, "--from-beginning", "--until-end", "--json", *args)
    return [json.loads(line) for line in out.splitlines()]


def values(records: Sequence[dict[str, Any]]) -> list[Any]:
    return [record["value"] for record in records]


def test_a_topic_from_create_to_delete(cli: Cli, topic: str) -> None:
    created = cli.out(
        "topics", "create", topic, "-p", "3", "-r", "1", "-c", "retention.ms=86400000"
    )
    assert created == f"created {topic}\n"
    assert "TOPIC_ALREADY_EXISTS" in cli.fails("topics", "create", topic)
    assert cli.out("topics", "create", topic, "--if-not-exists") == ""

    listed = {entry["name"]: entry for entry in cli.json("topics", "list")}
    assert listed[topic] == {
        "name": topic,
        "partitions": 3,
        "replication_factor": 1,
        "records": 0,
        "size_bytes": 0,
        "problems": {},
        "internal": False,
    }
    assert topic in cli.out("topics", "list", "--names").splitlines()

    cli("topics", "alter", topic, "-p", "4", "-c", "max.message.bytes=5000")
    cli("topics", "alter", topic, "--delete-config", "retention.ms")
    (described,) = cli.json("topics", "describe", topic)
    assert [part["partition"] for part in described["partitions"]] == [0, 1, 2, 3]
    assert described["configs"]["max.message.bytes"] == {"value": "5000", "source": "topic"}
    assert "retention.ms" not in described["configs"]
    assert "INVALID_PARTITIONS" in cli.fails("topics", "alter", topic, "-p", "2")

    assert cli.out("topics", "delete", topic) == f"deleted {topic}\n"
    assert f"no topic '{topic}'" in cli.fails("topics", "describe", topic)
    assert f"no topic '{topic}'" in cli.fails("topics", "delete", topic)


def test_records_and_their_size_are_listed(cli: Cli, topic: str) -> None:
    cli("topics", "create", topic, "-p", "2")
    cli("produce", topic, stdin=b"a\n" * 100)

    listed = {entry["name"]: entry for entry in cli.json("topics", "list")}
    assert listed[topic]["records"] == 100
    segments = [*cli.data_dir.glob(f"{topic}-*/*.log")]
    assert listed[topic]["size_bytes"] == sum(segment.stat().st_size for segment in segments) > 100
    shown = {line.split()[0]: line.split() for line in cli.out("topics", "list").splitlines()}
    assert shown[topic][1:4] == ["2", "1", "100"]
    assert shown[topic][-1] == "ok"


def test_the_cluster_on_one_screen(cli: Cli, topic: str) -> None:
    cli("topics", "create", topic, "-p", "2")
    cli("produce", topic, stdin=b"a\n")

    found = cli.json("cluster")
    (broker,) = found["brokers"]
    assert f"{broker['host']}:{broker['port']}" == cli.bootstrap
    # Brokers of KRaft name any of them, so that none is believed.
    assert found["controller_id"] == (broker["id"] if broker["software"] == "Ottla" else None)
    assert (broker["software"], broker["version"]) in {
        ("Ottla", __version__),
        ("Apache Kafka", "4.3"),
    }
    if broker["software"] == "Ottla":
        assert (broker["counters"]["active_controller"], broker["counters"]["session"]) == (
            True,
            "connected",
        )
    assert found["topics"] >= 1
    assert found["partitions"] >= 2
    assert found["size_bytes"] > 0
    assert not any(found["problems"].values())
    text = cli.out("cluster")
    assert found["cluster_id"] in text
    assert "health      ok" in text


def test_trim(cli: Cli, topic: str) -> None:
    cli("topics", "create", topic, "-p", "2")
    cli("produce", topic, "--partition", "0", stdin=b"a\nb\nc\nd\n")

    planned = cli.json("topics", "trim", topic, "--keep", "1")
    assert [part["deleted"] for part in planned["partitions"]] == [3, 0]
    assert values(read_all(cli, topic)) == ["a", "b", "c", "d"]
    trimmed = cli.out("topics", "trim", topic, "--keep", "1", "--execute")
    assert trimmed.splitlines()[-1] == f"trimmed {topic}"
    assert values(read_all(cli, topic)) == ["d"]
    cli("topics", "alter", topic, "-c", "cleanup.policy=compact")
    refused = cli.fails("topics", "trim", topic, "--older-than", "0s", "--execute")
    assert "cleanup.policy=compact" in refused
    assert values(read_all(cli, topic)) == ["d"]


def test_describe_shows_health_and_offsets(cli: Cli, topic: str) -> None:
    cli("topics", "create", topic)
    cli("produce", topic, stdin=b"a\nb\n")

    (described,) = cli.json("topics", "describe", topic)
    (partition,) = described["partitions"]
    assert (partition["earliest_offset"], partition["latest_offset"]) == (0, 2)
    assert partition["replicas"] == partition["isr"] == [partition["leader"]]
    assert partition["problems"] == []

    folder = cli.data_dir / f"{topic}-0"
    assert described["topic_id"] in (folder / "partition.metadata").read_text()
    assert cli.out("topics", "describe", topic).splitlines()[-1].split()[-3:] == ["0", "2", "ok"]
    assert cli.out("topics", "describe", topic, "--unhealthy") == "every partition is healthy\n"


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (["bad name"], "TOPIC_EXCEPTION"),
        (["{topic}", "-r", "9"], "INVALID_REPLICATION_FACTOR"),
        (["{topic}", "-c", "no.such=1"], "INVALID_CONFIG"),
        (["{topic}", "-c", "retention.ms=soon"], "INVALID_CONFIG"),
    ],
)
def test_what_a_broker_refuses_is_said(cli: Cli, topic: str, args: list[str], code: str) -> None:
    err = cli.fails("topics", "create", *(arg.format(topic=topic) for arg in args))

    assert err.rstrip().endswith(f"({code})")


def test_settings_of_a_topic(cli: Cli, topic: str) -> None:
    cli("topics", "create", topic)
    cli("configs", "alter", "topic", topic, "--set", "retention.ms=5", "--set", "segment.ms=9000")
    cli("configs", "alter", "topic", topic, "--append", "cleanup.policy=compact")
    cli("configs", "alter", "topic", topic, "--subtract", "cleanup.policy=delete")
    cli("configs", "alter", "topic", topic, "--delete", "segment.ms")

    changed = {
        entry["name"]: entry["value"]
        for entry in cli.json("configs", "describe", "topic", topic)
        if entry["source"] == "topic"
    }
    assert changed == {"retention.ms": "5", "cleanup.policy": "compact"}
    everything = cli.json("configs", "describe", "topic", topic, "--all")
    assert {"segment.bytes", "min.insync.replicas"} < {entry["name"] for entry in everything}
    assert "INVALID_CONFIG" in cli.fails("configs", "alter", "topic", topic, "--set", "x=1")
    wrong = cli.fails("configs", "alter", "topic", topic, "--set", "retenton.ms=1")
    assert re.search(r"id you mean '?retention.ms'?\?", wrong)


def test_settings_of_a_group(cli: Cli, topic: str) -> None:
    setting = "consumer.session.timeout.ms"
    cli("configs", "alter", "group", topic, "--set", f"{setting}=50000")

    # Apache Kafka answers before its broker has heard of a change.
    deadline_s = time.monotonic() + _TIMEOUT_S
    while not (changed := cli.json("configs", "describe", "group", topic)):
        assert time.monotonic() < deadline_s

    assert [(one["name"], one["value"], one["source"]) for one in changed] == [
        (setting, "50000", "group")
    ]
    everything = cli.json("configs", "describe", "group", topic, "--all")
    assert "consumer.heartbeat.interval.ms" in {entry["name"] for entry in everything}
    assert "INVALID_CONFIG" in cli.fails("configs", "alter", "group", topic, "--set", "x=1")


def test_settings_of_a_broker(cli: Cli) -> None:
    entries = {entry["name"]: entry for entry in cli.json("configs", "describe", "broker", "1")}

    assert entries["log.dirs"]["source"] == "static broker"
    assert entries["log.dirs"]["read_only"] is True
    assert "no broker 77; the cluster has 1" in cli.fails("configs", "describe", "broker", "77")


def test_lines_come_back(cli: Cli, topic: str) -> None:
    cli("topics", "create", topic)
    done = cli("produce", topic, stdin="eins\nzwei\n\nünï".encode())

    assert done.stderr.decode() == f"ottla: 4 records written to {topic}\n"
    assert cli.out("consume", topic, "-b", "-e") == "eins\nzwei\n\nünï\n"
    assert cli.out("consume", topic, "-b", "--max", "2") == "eins\nzwei\n"
    assert cli.out("consume", topic, "-o", "1", "--max", "1") == "zwei\n"
    assert cli.out("consume", topic, "-o", "end-1", "-e") == "ünï\n"
    assert cli.out("consume", topic, "-e") == ""
    assert f"{topic}-0 has offsets 0 to 4" in cli.fails("consume", topic, "-o", "5")


@pytest.mark.parametrize("compression", ["gzip", "snappy", "lz4", "zstd"])
def test_keys_nulls_headers_and_compression(cli: Cli, topic: str, compression: str) -> None:
    cli("topics", "create", topic, "-p", "3")
    options = ["-k", ":", "--null-value", "-", "-H", "h=1", "-H", "n=2", "-p", "2"]
    lines = b"".join(b"key%d:%s\n" % (number, b"x" * 50) for number in range(100)) + b"last:-\n"
    cli("produce", topic, *options, "-z", compression, stdin=lines)

    records = read_all(cli, topic)
    assert len(records) == 101
    assert {record["partition"] for record in records} == {2}
    assert [record["offset"] for record in records] == list(range(101))
    assert records[7]["key"] == "key7"
    assert records[7]["headers"] == [{"key": "h", "value": "1"}, {"key": "n", "value": "2"}]
    assert (records[-1]["key"], records[-1]["value"]) == ("last", None)
    shown = cli.out("consume", topic, "-o", "end-1", "-p", "2", "-e", "--keys", "--headers")
    assert shown == "h=1,n=2\tlast\tnull\n"


def test_a_topic_can_be_copied_as_json(cli: Cli, topic: str) -> None:
    copy = f"{topic}-copy"
    cli("topics", "create", topic, copy, "-p", "2")
    lines = [
        {"key": "a", "value": {"n": 1}, "partition": 1, "timestamp": 1_700_000_000_000},
        {"key_base64": "/w==", "value_base64": "/v8=", "headers": {"h": "ünï"}, "partition": 0},
        {"value": None, "partition": 0},
    ]
    cli("produce", topic, "--json", stdin="\n".join(map(json.dumps, lines)).encode())
    original = cli.out("consume", topic, "-b", "-e", "--json")
    cli("produce", copy, "--json", stdin=original.encode())

    def essence(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
        for record in records:
            del record["topic"]
        return sorted(records, key=lambda record: (record["partition"], record["offset"]))

    copied = essence(read_all(cli, copy))
    assert copied == essence([json.loads(line) for line in original.splitlines()])
    assert copied[2]["timestamp"] == 1_700_000_000_000
    assert copied[2]["value"] == '{"n":1}'
    assert copied[0]["value_base64"] == "/v8="


def test_reading_from_a_time(cli: Cli, topic: str) -> None:
    cli("topics", "create", topic, "-c", "retention.ms=-1")
    lines = [{"value": str(n), "timestamp": 1_700_000_000_000 + n * 1000} for n in range(5)]
    cli("produce", topic, "--json", stdin="\n".join(map(json.dumps, lines)).encode())

    assert cli.out("consume", topic, "--from-timestamp", "1700000003000", "-e") == "3\n4\n"
    assert cli.out("consume", topic, "--from-timestamp", "2023-11-14T22:13:22Z", "-n", "1") == "2\n"
    assert cli.out("consume", topic, "--from-timestamp", "2040-01-01", "-e") == ""


def test_a_record_that_is_too_large_fails(cli: Cli, topic: str) -> None:
    cli("topics", "create", topic, "-c", "max.message.bytes=1000")
    done = cli("produce", topic, stdin=b"x" * 2000 + b"\n", exit_code=1)

    assert b"MSG_SIZE_TOO_LARGE" in done.stderr
    assert done.stderr.endswith(f"0 records written to {topic}, 1 failed\n".encode())


def test_a_file_is_sent_whole(cli: Cli, topic: str, tmp_path: Path) -> None:
    cli("topics", "create", topic)
    path = tmp_path / "lines"
    path.write_text("".join(f"{number}\n" for number in range(20_000)))
    cli("produce", topic, "--file", str(path), "--acks", "1")

    assert cli.out("consume", topic, "-b", "-e") == path.read_text()


def test_unknown_topics_are_said_at_once(cli: Cli, topic: str) -> None:
    assert f"no topic '{topic}'" in cli.fails("consume", topic)
    assert f"no topic '{topic}'" in cli.fails("configs", "describe", "topic", topic)


def test_a_topic_that_produce_creates_is_said(cli: Cli, topic: str) -> None:
    err = cli.fails("produce", topic, "--no-create", stdin=b"a\n")
    assert f"no topic '{topic}'" in err

    created = cli("produce", topic, stdin=b"a\n").stderr.decode().splitlines()
    assert created == [
        f"ottla: created topic {topic} with 1 partition",
        f"ottla: 1 record written to {topic}",
    ]
    again = cli("produce", topic, "--no-create", stdin=b"a\n").stderr.decode()
    assert again == f"ottla: 1 record written to {topic}\n"
    assert f"did you mean '{topic}'?" in cli.fails("produce", f"{topic}x", "--no-create")


def test_new_records_are_shown_as_they_come(cli: Cli, topic: str) -> None:
    cli("topics", "create", topic)
    with cli.start("consume", topic) as consumer:
        assert consumer.stdout is not None
        assert consumer.stderr is not None
        # Until it has found the end, what is written is old for it: so write until one shows.
        writes = 0
        os.set_blocking(consumer.stdout.fileno(), False)
        seen = b""
        while not seen and writes < 30:
            cli("produce", topic, stdin=b"%d\n" % writes)
            writes += 1
            time.sleep(0.2)
            seen = consumer.stdout.read() or b""
        consumer.send_signal(2)
        assert consumer.wait(_TIMEOUT_S) == 0
        assert b"read from" in consumer.stderr.read()
    assert seen.endswith(b"%d\n" % (writes - 1))


def test_a_reader_that_goes_away_ends_it_quietly(cli: Cli, topic: str) -> None:
    cli("topics", "create", topic)
    cli("produce", topic, stdin=b"a\nb\n")
    with cli.start("consume", topic, "-b") as consumer:
        assert consumer.stdout is not None
        assert consumer.stderr is not None
        assert consumer.stdout.readline() == b"a\n"
        consumer.stdout.close()  # and nothing more is written to the topic
        assert consumer.stderr.read() == b""
        assert consumer.wait(_TIMEOUT_S) == 141


def test_perf(cli: Cli, topic: str) -> None:
    written = cli.json("perf", "produce", topic, "-n", "2000", "-s", "50", "-p", "2")
    read = cli.json("perf", "consume", topic)

    assert (written["records"], written["failed"]) == (2000, 0)
    assert 0 < written["latency_ms"]["p50"] <= written["latency_ms"]["max"]
    assert read["records"] == 2000
    assert (cli.json("topics", "describe", topic)[0]["partitions"][1]["partition"]) == 1
    assert cli.json("perf", "consume", topic, "-n", "700")["records"] == 700
    assert "records/s" in cli.out("perf", "produce", topic, "-n", "100", "--rate", "1000")
    assert f"perf did not make {topic}" in cli.fails("perf", "consume", topic, "--delete")


def test_perf_names_the_topic_that_it_leaves_or_deletes_it(cli: Cli, topic: str) -> None:
    kept = cli("perf", "produce", f"{topic}-kept", "-n", "10", "--json").stderr.decode()
    assert f"`ottla topics delete {topic}-kept` deletes it" in kept

    deleted = cli("perf", "produce", topic, "-n", "10", "--json", "--delete").stderr.decode()
    assert deleted == f"ottla: deleted topic {topic}\n"
    assert topic not in cli.out("topics", "list", "--names").splitlines()


def test_the_files_of_a_broker_are_sound(cli: Cli, topic: str) -> None:
    cli("topics", "create", topic, "-c", "index.interval.bytes=100")
    cli("produce", topic, "-k", ":", "-H", "h=1", stdin=b"a:1\nb:2\n")
    for number in range(3):
        cli("produce", topic, "-z", "zstd", stdin=b"%d\n" % number * 500)
    folder = cli.data_dir / f"{topic}-0"

    assert "files are sound" in cli.out("dump-log", "--check", str(folder))
    out = cli.out("dump-log", "--json", "--records", str(folder))
    entries = [json.loads(line) for line in out.splitlines()]
    records = [entry for entry in entries if entry["type"] == "record"]
    assert [record["offset"] for record in records] == list(range(1502))
    assert (records[0]["key"], records[0]["value"]) == ("a", "1")
    assert any(entry["type"] == "leader_epoch" for entry in entries)
