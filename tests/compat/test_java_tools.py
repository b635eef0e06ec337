"""Apache Kafka's own command-line tools against Ottla. A JVM takes seconds to start, so each
does much at once."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.support.need import need_apache_kafka
from tests.support.ottla_process import OttlaProcess
from tests.support.side_by_side import NOW_MS, Subject, a_batch
from tools.apache_kafka import ToolFailed, run_tool

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(autouse=True)
def apache_kafka_is_there() -> None:
    need_apache_kafka()


def run(broker: OttlaProcess, tool: str, *args: str, stdin: str = "") -> str:
    address = ("--bootstrap-server", broker.bootstrap)
    if tool == "cluster":  # Its command comes first.
        return run_tool(tool, *args, *address).stdout
    return run_tool(tool, *address, *args, stdin=stdin).stdout


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_console_producer_and_consumer(
    shared_broker: OttlaProcess, topic: str, compression: str
) -> None:
    lines = [f"h{n}:x\tkey-{n}\tvalue {n} ü" for n in range(50)]
    run(
        shared_broker,
        "console-producer",
        *("--topic", topic, "--compression-codec", compression),
        *("--reader-property", "parse.key=true", "--reader-property", "parse.headers=true"),
        stdin="\n".join(lines) + "\n",
    )
    out = run(
        shared_broker,
        "console-consumer",
        *("--topic", topic, "--partition", "0", "--offset", "earliest", "--max-messages", "50"),
        *("--formatter-property", "print.key=true", "--formatter-property", "print.headers=true"),
        *("--formatter-property", "print.offset=true", "--timeout-ms", "30000"),
    )
    found = [line for line in out.splitlines() if line.startswith("Offset:")]
    assert found == [f"Offset:{n}\t{line}" for n, line in enumerate(lines)]


def test_topics(shared_broker: OttlaProcess, topic: str) -> None:
    run(
        shared_broker,
        "topics",
        *("--create", "--topic", topic, "--partitions", "3", "--replication-factor", "1"),
        *("--config", "retention.ms=86400000"),
    )
    assert topic in run(shared_broker, "topics", "--list").splitlines()
    described = run(shared_broker, "topics", "--describe", "--topic", topic)
    assert re.search(rf"Topic: {topic}\s+TopicId: \S+\s+PartitionCount: 3", described)
    assert "retention.ms=86400000" in described
    assert len(re.findall(r"Leader: 1\s+Replicas: 1\s+Isr: 1", described)) == 3
    run(shared_broker, "topics", "--alter", "--topic", topic, "--partitions", "5")
    assert "PartitionCount: 5" in run(shared_broker, "topics", "--describe", "--topic", topic)
    with pytest.raises(ToolFailed, match="TopicExistsException"):
        run(shared_broker, "topics", "--create", "--topic", topic)
    run(shared_broker, "topics", "--delete", "--topic", topic)
    assert topic not in run(shared_broker, "topics", "--list").splitlines()


def test_configs(shared_broker: OttlaProcess, topic: str) -> None:
    with Subject("Ottla", shared_broker.bootstrap) as subject:
        subject.create(topic)
    of_topic = ("--entity-type", "topics", "--entity-name", topic)
    of_broker = ("--entity-type", "brokers", "--entity-name", "1")
    changes = "retention.ms=5000,cleanup.policy=[compact,delete]"
    run(shared_broker, "configs", "--alter", *of_topic, "--add-config", changes)
    described = run(shared_broker, "configs", "--describe", *of_topic)
    assert "retention.ms=5000" in described
    assert "cleanup.policy=compact,delete" in described
    run(shared_broker, "configs", "--alter", *of_topic, "--delete-config", "retention.ms")
    assert "retention.ms" not in run(shared_broker, "configs", "--describe", *of_topic)
    with pytest.raises(ToolFailed, match="InvalidConfig"):
        run(shared_broker, "configs", "--alter", *of_topic, "--add-config", "retention.ms=soon")
    run(shared_broker, "configs", "--alter", *of_broker, "--add-config", "log.retention.ms=7200000")
    described = run(shared_broker, "configs", "--describe", *of_broker)
    assert "log.retention.ms=7200000" in described
    assert "DYNAMIC_BROKER_CONFIG" in described
    run(shared_broker, "configs", "--alter", *of_broker, "--delete-config", "log.retention.ms")


def test_configs_of_a_group(shared_broker: OttlaProcess, topic: str) -> None:
    all_groups = ("--entity-type", "groups")
    of_group = (*all_groups, "--entity-name", topic)
    setting = "consumer.session.timeout.ms"
    assert "doesn't exist" in run(shared_broker, "configs", "--describe", *of_group)
    run(shared_broker, "configs", "--alter", *of_group, "--add-config", f"{setting}=50000")
    described = run(shared_broker, "configs", "--describe", *all_groups)
    assert f"Dynamic configs for group {topic} are:" in described
    assert (
        f"DYNAMIC_GROUP_CONFIG:{setting}=50000, DEFAULT_CONFIG:group.{setting}=45000" in described
    )
    with pytest.raises(ToolFailed, match="InvalidConfig"):
        run(shared_broker, "configs", "--alter", *of_group, "--add-config", f"{setting}=1")


def test_offsets_and_deleted_records(
    shared_broker: OttlaProcess, topic: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with Subject("Ottla", shared_broker.bootstrap) as subject:
        subject.create(topic, 2)
        for n in range(5):
            subject.produce(topic, a_batch(b"%d" % n, timestamp=NOW_MS + n), partition=1)

    def offsets(time: str) -> list[str]:
        out = run(shared_broker, "get-offsets", "--topic", topic, "--time", time)
        return sorted(line for line in out.splitlines() if line.startswith(topic))

    assert offsets("latest") == [f"{topic}:0:0", f"{topic}:1:5"]
    assert offsets("max-timestamp")[-1] == f"{topic}:1:4"
    assert offsets(str(NOW_MS + 2))[-1] == f"{topic}:1:2"
    wanted = {"partitions": [{"topic": topic, "partition": 1, "offset": 3}], "version": 1}
    path = tmp_path_factory.mktemp("delete-records") / "offsets.json"
    path.write_text(json.dumps(wanted))
    out = run(shared_broker, "delete-records", "--offset-json-file", str(path))
    assert f"partition: {topic}-1\tlow_watermark: 3" in out
    assert offsets("earliest") == [f"{topic}:0:0", f"{topic}:1:3"]


def test_performance_tools(shared_broker: OttlaProcess, topic: str) -> None:
    """Through the idempotent producer with its defaults, and with acks=1."""
    for settings in (["acks=all"], ["acks=1", "compression.type=lz4", "enable.idempotence=false"]):
        done = run_tool(
            "producer-perf",
            *("--topic", topic, "--num-records", "20000", "--record-size", "100"),
            *("--throughput", "-1", "--command-property"),
            *(f"bootstrap.servers={shared_broker.bootstrap}", *settings),
        )
        assert "20000 records sent" in done.stdout
    with Subject("Ottla", shared_broker.bootstrap) as subject:
        assert subject.fetch(topic).responses[0].partitions[0].high_watermark == 40_000


def test_the_cluster_is_described(shared_broker: OttlaProcess, topic: str) -> None:
    with Subject("Ottla", shared_broker.bootstrap) as subject:
        subject.create(topic)
        subject.produce(topic, a_batch(b"v" * 100))
    out = run(shared_broker, "log-dirs", "--describe", "--topic-list", topic)
    (folder,) = log_dirs(out)
    assert (folder["logDir"], folder["error"]) == (str(shared_broker.data_dir), None)
    (partition,) = folder["partitions"]
    size = (shared_broker.data_dir / f"{topic}-0" / f"{0:020}.log").stat().st_size
    assert (partition["partition"], partition["size"]) == (f"{topic}-0", size)
    out = run(shared_broker, "broker-api-versions")
    assert f"{shared_broker.bootstrap} (id: 1 rack: null" in out
    assert re.search(r"Produce\(0\): 0 to \d+ \[usable: \d+\]", out)
    assert "UNSUPPORTED" in out, "it says which APIs are not there"
    assert "Cluster ID: " in run(shared_broker, "cluster", "cluster-id")


def log_dirs(out: str) -> list[Any]:
    (line,) = [line for line in out.splitlines() if line.startswith("{")]
    (broker,) = json.loads(line)["brokers"]
    found: list[Any] = broker["logDirs"]
    return found
