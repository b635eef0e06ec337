"""Apache Kafka's own consumers and tools on groups."""

from __future__ import annotations

import re
import subprocess
from typing import Any

import pytest

from ottla.kernel.internal_topics import CONSUMER_OFFSETS
from ottla.wire.messages.describe_groups import DescribeGroupsRequest
from tests.compat.test_groups_clients import PARTITION_COUNT, committed, create, produce
from tests.support.group_members import ConfluentMember, wait_until, wait_until_shared
from tests.support.internal_topics import formatted
from tests.support.need import need_apache_kafka
from tests.support.ottla_process import OttlaProcess
from tests.support.raw_client import RawClient
from tools.apache_kafka import run_tool, tool_command


@pytest.fixture(autouse=True)
def apache_kafka_is_there() -> None:
    need_apache_kafka()


@pytest.fixture
def bootstrap(shared_broker: OttlaProcess) -> str:
    return shared_broker.bootstrap


def groups_tool(bootstrap: str, *args: str) -> str:
    return run_tool("consumer-groups", "--bootstrap-server", bootstrap, *args).stdout


def rows(output: str) -> list[dict[str, str]]:
    """A table as the tool prints it."""
    lines = [line.split() for line in output.splitlines() if line.strip()]
    header = next(number for number, line in enumerate(lines) if line[0] == "GROUP")
    return [dict(zip(lines[header], line, strict=False)) for line in lines[header + 1 :]]


def is_empty(bootstrap: str, group: str) -> bool:
    with RawClient(bootstrap) as client:
        (described,) = client.ask(DescribeGroupsRequest(groups=[group]), 6).groups
        return bool(described.group_state == "Empty")


def console_consumer(bootstrap: str, topic: str, group: str, count: int, *more: str) -> list[str]:
    done = run_tool(
        "console-consumer",
        *("--bootstrap-server", bootstrap, "--topic", topic, "--group", group),
        *("--max-messages", str(count), "--timeout-ms", "30000", *more),
    )
    return done.stdout.split()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_the_console_consumer_goes_on_where_it_was(
    bootstrap: str, topic: str, protocol: str
) -> None:
    create(bootstrap, topic)
    produce(bootstrap, topic, range(60))
    more = ["--from-beginning", "--command-property", f"group.protocol={protocol}"]
    first = console_consumer(bootstrap, topic, topic, 60, *more)
    assert sorted(map(int, first)) == list(range(60))
    assert committed(bootstrap, topic, topic) == [10] * PARTITION_COUNT
    produce(bootstrap, topic, range(60, 90))
    second = console_consumer(bootstrap, topic, topic, 30, *more)
    assert sorted(map(int, second)) == list(range(60, 90))


def test_java_and_librdkafka_in_one_group(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic)
    member = ConfluentMember(bootstrap, topic, topic, auto_commit_interval_ms=100)
    command = tool_command(
        "console-consumer",
        # From the beginning: else it goes to the end of what it is given, and that may be after
        # the first records have come.
        *("--bootstrap-server", bootstrap, "--topic", topic, "--group", topic, "--from-beginning"),
        *("--command-property", "group.protocol=classic"),
        *("--command-property", "heartbeat.interval.ms=300"),
        *("--command-property", "auto.commit.interval.ms=100"),
    )
    java = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        wait_until(lambda: len(member.assigned) == PARTITION_COUNT // 2, "they share")
        sent = produce(bootstrap, topic, range(60))
        wait_until(lambda: committed(bootstrap, topic, topic) == [10] * 6, "all are read")
        java.terminate()
        output, _ = java.communicate(timeout=30)
        seen = {(int(line) % PARTITION_COUNT, line.encode()) for line in output.split()}
        assert seen | set(member.seen) == sent
        assert not seen & set(member.seen)
        wait_until_shared(PARTITION_COUNT, member)
    finally:
        java.kill()
        java.wait()
        member.stop()


def test_consumer_performance(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic)
    produce(bootstrap, topic, range(6000))
    done = run_tool(
        "consumer-perf",
        *("--bootstrap-server", bootstrap, "--topic", topic, "--group", topic),
        *("--num-records", "6000", "--timeout", "30000"),
    )
    (line,) = [line for line in done.stdout.splitlines() if re.match(r"\d{4}-", line)]
    assert int(line.split(", ")[4]) == 6000


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_consumer_groups_shows_a_group(bootstrap: str, topic: str, protocol: str) -> None:
    create(bootstrap, topic)
    produce(bootstrap, topic, range(60))
    member = ConfluentMember(
        bootstrap, topic, topic, group_protocol=protocol, auto_commit_interval_ms=100
    )
    try:
        wait_until(lambda: len(member.seen) == 60, "all are read")
        wait_until(lambda: committed(bootstrap, topic, topic) == [10] * 6, "and committed")
        assert topic in groups_tool(bootstrap, "--list").split()
        found = rows(groups_tool(bootstrap, "--describe", "--group", topic))
        assert {(row["TOPIC"], row["CURRENT-OFFSET"], row["LAG"]) for row in found} == {
            (topic, "10", "0")
        }
        assert {row["CLIENT-ID"] for row in found} == {"rdkafka"}
        (state,) = rows(groups_tool(bootstrap, "--describe", "--group", topic, "--state"))
        assert " ".join(state.values()).split()[-2:] == ["Stable", "1"]
        (one,) = rows(groups_tool(bootstrap, "--describe", "--group", topic, "--members"))
        assert one["#PARTITIONS"] == "6"
        refused = groups_tool(bootstrap, "--delete", "--group", topic)
        assert "GroupNotEmptyException" in refused
    finally:
        member.stop()


def test_consumer_groups_resets_and_deletes(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic)
    produce(bootstrap, topic, range(60))
    console_consumer(bootstrap, topic, topic, 60, "--from-beginning")
    to_4 = ["--group", topic, "--topic", topic, "--reset-offsets", "--to-offset", "4"]
    groups_tool(bootstrap, *to_4, "--dry-run")
    assert committed(bootstrap, topic, topic) == [10] * PARTITION_COUNT
    groups_tool(bootstrap, *to_4, "--execute")
    assert committed(bootstrap, topic, topic) == [4] * PARTITION_COUNT
    groups_tool(bootstrap, "--delete-offsets", "--group", topic, "--topic", f"{topic}:1,2")
    assert committed(bootstrap, topic, topic) == [4, -1001, -1001, 4, 4, 4]
    groups_tool(bootstrap, "--delete", "--group", topic)
    assert topic not in groups_tool(bootstrap, "--list").split()
    assert committed(bootstrap, topic, topic) == [-1001] * PARTITION_COUNT


def test_formatters_read_what_coordinators_write(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic)
    produce(bootstrap, topic, range(60))
    member = ConfluentMember(bootstrap, topic, topic, auto_commit_interval_ms=100)
    wait_until(lambda: len(member.seen) == 60, "all are read")
    member.stop()

    wait_until(lambda: is_empty(bootstrap, topic), "it has left")

    def read_with(formatter: str) -> list[Any]:
        found = formatted(bootstrap, CONSUMER_OFFSETS, topic, formatter)
        return [record for record in found if record["key"]["data"]["group"] == topic]

    offsets = read_with("OffsetsMessageFormatter")
    assert {one["key"]["data"]["partition"] for one in offsets} == set(range(6))
    last = {one["key"]["data"]["partition"]: one["value"]["data"]["offset"] for one in offsets}
    assert last == dict.fromkeys(range(6), 10)
    groups = read_with("GroupMetadataMessageFormatter")
    members = [len(one["value"]["data"]["members"]) for one in groups]
    assert 1 in members
    assert members[-1] == 0, "it has left"
