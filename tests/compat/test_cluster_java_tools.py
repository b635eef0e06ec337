"""Apache Kafka's own tools for clusters, against three brokers of Ottla. A JVM takes seconds to
start, so each test does much at once."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.need import need_apache_kafka
from tests.support.three_brokers import ThreeBrokers
from tools.apache_kafka import run_tool
from tools.apache_kafka.java import tool_command

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreeBrokers]:
    need_apache_kafka()
    brokers = ThreeBrokers(tmp_path_factory.mktemp("three-brokers"), is_ottla=True)
    try:
        brokers.start()
        yield brokers
    finally:
        brokers.stop()


def run(cluster: ThreeBrokers, tool: str, *args: str) -> str:
    return run_tool(tool, "--bootstrap-server", cluster.bootstrap, *args).stdout


def described(cluster: ThreeBrokers, which: str) -> set[tuple[str, int]]:
    """The partitions that `kafka-topics.sh --describe` shows with this option."""
    out = run(cluster, "topics", "--describe", which)
    return {
        (topic, int(number))
        for topic, number in re.findall(r"Topic: (\S+)\s+Partition: (\d+)", out)
    }


def test_what_is_missing_while_a_broker_is_down(cluster: ThreeBrokers) -> None:
    cluster.create("whole", [1, 2], [2, 1])
    cluster.create("short", [3, 1, 2], [1, 2, 3])
    cluster.create("too-short", [3, 1], config={"min.insync.replicas": "2"})
    cluster.create("gone", [3])
    cluster.kill_3()
    cluster.wait_until("gone", lambda one: one.leader == -1)
    cluster.wait_until("short", lambda one: one.leader != 3 and 3 not in one.isrs)
    try:
        # The last member of an ISR stays in it: only it may lead again.
        behind = {("short", 0), ("short", 1), ("too-short", 0)}
        assert described(cluster, "--under-replicated-partitions") == behind
        assert described(cluster, "--under-min-isr-partitions") == {("too-short", 0), ("gone", 0)}
        assert described(cluster, "--unavailable-partitions") == {("gone", 0)}
    finally:
        cluster.start_3()
    for topic in ("short", "too-short", "gone"):
        cluster.wait_until(topic, lambda one: sorted(one.isrs) == sorted(one.replicas))
    assert cluster.partitions("short")[0].leader != 3
    run(
        cluster,
        "leader-election",
        *("--election-type", "preferred", "--all-topic-partitions"),
    )
    cluster.wait_until("short", lambda one: one.leader == one.replicas[0])
    assert described(cluster, "--under-replicated-partitions") == set()


def test_partitions_move(cluster: ThreeBrokers, tmp_path: Path) -> None:
    cluster.create("moved", [1, 2], [2, 1])
    cluster.produce("moved", 3000)
    topics, plan = tmp_path / "topics.json", tmp_path / "plan.json"
    topics.write_text(json.dumps({"version": 1, "topics": [{"topic": "moved"}]}))
    generated = run(
        cluster,
        "reassign-partitions",
        *("--generate", "--topics-to-move-json-file", str(topics), "--broker-list", "1,2,3"),
    )
    assert '"topic":"moved"' in generated.splitlines()[-1]
    entries = [{"topic": "moved", "partition": number, "replicas": [3, 1]} for number in (0, 1)]
    plan.write_text(json.dumps({"version": 1, "partitions": entries}))
    file = ("--reassignment-json-file", str(plan))

    slowly = run(cluster, "reassign-partitions", "--execute", *file, "--throttle", "20000")
    assert "Successfully started partition reassignments for moved-0,moved-1" in slowly
    listed = run(cluster, "reassign-partitions", "--list")
    assert re.search(r"moved-0: replicas: 3,1,2\. adding: 3\. removing: 2\.", listed)
    cancelled = run(cluster, "reassign-partitions", "--cancel", *file, "--preserve-throttles")
    assert "Successfully cancelled partition reassignments for: moved-0,moved-1" in cancelled
    assert [sorted(one.replicas) for one in cluster.partitions("moved")] == [[1, 2], [1, 2]]

    run(cluster, "reassign-partitions", "--execute", *file, "--throttle", "100000000")
    cluster.wait_until("moved", lambda one: list(one.replicas) == [3, 1])
    verified = run(cluster, "reassign-partitions", "--verify", *file)
    assert verified.count("is completed.") == 2
    assert "Clearing broker-level throttles" in verified
    of_topic = ("--entity-type", "topics", "--entity-name", "moved")
    assert "throttled" not in run(cluster, "configs", "--describe", *of_topic)
    of_brokers = ("--entity-type", "brokers")
    assert "throttled" not in run(cluster, "configs", "--describe", *of_brokers)


def test_replicas_have_the_same_records(cluster: ThreeBrokers) -> None:
    cluster.create("verified", [1, 2, 3], [2, 3, 1])
    cluster.produce("verified", 200)
    out = run(
        cluster, "log-dirs", "--describe", "--broker-list", "1,2,3", "--topic-list", "verified"
    )
    (line,) = [line for line in out.splitlines() if line.startswith("{")]
    sizes = {
        (part["partition"], part["size"])
        for broker in json.loads(line)["brokers"]
        for folder in broker["logDirs"]
        for part in folder["partitions"]
    }
    assert len(sizes) == 2, "three replicas of each of two partitions are equally long"
    assert all(size > 50_000 for _, size in sizes)
    assert verification(cluster, "verified", 2) == 0


def verification(cluster: ThreeBrokers, topic: str, partition_count: int) -> int:
    """The largest lag that kafka-replica-verification.sh finds. It has no end of its own."""
    command = tool_command(
        "replica-verification",
        *("--broker-list", cluster.bootstrap, "--topics-include", topic),
        *("--report-interval-ms", "500"),
    )
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as tool:
        assert tool.stdout is not None
        try:
            for line in tool.stdout:
                if found := re.search(r"max lag is (\d+) for partition .* among (\d+)", line):
                    assert int(found[2]) == partition_count
                    return int(found[1])
        finally:
            tool.kill()
    raise AssertionError("it has ended by itself")
