"""`ottla groups` as a user runs it: a process each, with real consumers in the groups."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.compat.test_cli import Cli
from tests.support.side_by_side import SUBJECTS

_TIMEOUT_S = 30


@pytest.fixture(params=SUBJECTS)
def cli(request: pytest.FixtureRequest) -> Cli:
    if request.param == "Ottla":
        broker = request.getfixturevalue("shared_broker")
        return Cli(broker.bootstrap, broker.data_dir)
    kafka = request.getfixturevalue("apache_kafka")
    return Cli(kafka.bootstrap, kafka.log_dir)


@pytest.fixture
def group(topic: str) -> str:
    """A name that no other test uses, like the topic's."""
    return f"group-{topic}"


@pytest.fixture(params=["classic", "consumer"])
def protocol(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def topic_of_ten(cli: Cli, topic: str) -> str:
    """Two partitions, with five records each."""
    cli("topics", "create", topic, "-p", "2")
    for partition in ("0", "1"):
        cli("produce", topic, "--partition", partition, stdin=b"a\nb\nc\nd\ne\n")
    return topic


@contextmanager
def members(
    cli: Cli, group: str, topic: str, *, protocol: str = "classic", count: int = 1
) -> Iterator[list[Consumer]]:
    """Consumers of a group that have everything assigned, and commit only what they are told."""
    with ExitStack() as stack:
        consumers = []
        for index in range(count):
            consumer = Consumer(
                {
                    "bootstrap.servers": cli.bootstrap,
                    "group.id": group,
                    "client.id": f"member-{index}",
                    "group.protocol": protocol,
                    "enable.auto.commit": False,
                    "auto.offset.reset": "earliest",
                }
            )
            stack.callback(consumer.close)
            consumer.subscribe([topic])
            consumers.append(consumer)
        deadline_s = time.monotonic() + _TIMEOUT_S
        while sorted(len(consumer.assignment()) for consumer in consumers) != [2 // count] * count:
            assert time.monotonic() < deadline_s, "the group did not settle"
            for consumer in consumers:
                consumer.poll(0.1)
        yield consumers


def commit(cli: Cli, group: str, *offsets: tuple[str, int, int]) -> None:
    """As a consumer that assigns its partitions itself."""
    consumer = Consumer({"bootstrap.servers": cli.bootstrap, "group.id": group})
    partitions = [TopicPartition(*offset) for offset in offsets]
    # The first group of a cluster makes __consumer_offsets, and has no coordinator until then.
    deadline_s = time.monotonic() + _TIMEOUT_S
    while True:
        try:
            consumer.commit(offsets=partitions, asynchronous=False)
            break
        except KafkaException:
            if time.monotonic() >= deadline_s:
                raise
            time.sleep(0.1)
    consumer.close()


def committed(cli: Cli, group: str) -> dict[int, int]:
    (described,) = cli.json("groups", "describe", group)
    return {
        part["partition"]: part["committed_offset"]
        for part in described["partitions"]
        if part["committed_offset"] is not None
    }


def listed(cli: Cli, group: str) -> dict[str, Any] | None:
    found = {entry["group"]: entry for entry in cli.json("groups", "list")}
    return found.get(group)


# --- list and describe -------------------------------------------------------------------------


def test_a_group_at_work(cli: Cli, topic_of_ten: str, group: str, protocol: str) -> None:
    with members(cli, group, topic_of_ten, protocol=protocol, count=2) as consumers:
        owned = {f"member-{i}": c.assignment()[0].partition for i, c in enumerate(consumers)}
        consumers[0].commit(
            offsets=[TopicPartition(topic_of_ten, owned["member-0"], 3)], asynchronous=False
        )

        assert listed(cli, group) == {
            "group": group,
            "state": "Stable",
            "type": protocol,
            "members": 2,
            "lag": 2,
        }
        (described,) = cli.json("groups", "describe", group)
        text = cli.out("groups", "describe", group)

    assert described["state"] == "Stable"
    assert described["type"] == protocol
    assert described["assignor"] == ("range" if protocol == "classic" else "uniform")
    by_client = {member["client_id"]: member for member in described["members"]}
    assert by_client.keys() == owned.keys()
    for client, partition in owned.items():
        assert by_client[client]["partitions"] == [{"topic": topic_of_ten, "partition": partition}]
        assert by_client[client]["host"] == "/127.0.0.1"
        assert by_client[client]["instance_id"] is None
    assert described["partitions"] == [
        {
            "topic": topic_of_ten,
            "partition": partition,
            "committed_offset": 3 if partition == owned["member-0"] else None,
            "latest_offset": 5,
            "lag": 2 if partition == owned["member-0"] else None,
            "member_id": next(
                by_client[client]["member_id"] for client in owned if owned[client] == partition
            ),
        }
        for partition in (0, 1)
    ]
    assert described["lag"] == 2
    assert text.splitlines()[0] == group
    assert f"{topic_of_ten}:{owned['member-1']}" in text


def test_a_group_whose_members_are_gone(cli: Cli, topic_of_ten: str, group: str) -> None:
    with members(cli, group, topic_of_ten) as (consumer,):
        consumer.commit(offsets=[TopicPartition(topic_of_ten, 1, 4)], asynchronous=False)

    (described,) = cli.json("groups", "describe", group)
    assert (described["state"], described["members"], described["lag"]) == ("Empty", [], 1)
    assert group in cli.out("groups", "list", "--names").splitlines()
    assert group in [found["group"] for found in cli.json("groups", "describe")]


def test_there_is_no_such_group(cli: Cli, group: str) -> None:
    assert f"there is no group '{group}'" in cli.fails("groups", "describe", group)
    assert "GROUP_ID_NOT_FOUND" in cli.fails("groups", "delete", group)
    assert f"there is no group '{group}'" in cli.fails("groups", "delete-offsets", group, "-t", "t")
    reset = ("groups", "reset", group, "--all-topics", "--to-latest")
    assert f"there is no group '{group}'" in cli.fails(*reset)


def test_watch_shows_the_trend(cli: Cli, topic_of_ten: str, group: str) -> None:
    commit(cli, group, (topic_of_ten, 0, 1))
    watch = ("groups", "describe", group, "--watch", "--interval", "0.3")

    samples = [
        json.loads(line) for line in cli.out(*watch, "--samples", "2", "--json").splitlines()
    ]
    assert [sample["groups"][0]["lag"] for sample in samples] == [4, 4]
    assert samples[0]["time"] < samples[1]["time"]

    with cli.start(*watch) as watching:
        try:
            assert watching.stdout is not None
            line = watching.stdout.readline().decode()
            assert line.rstrip().endswith("Empty  0 members  lag 4  -")
            cli("produce", topic_of_ten, "--partition", "0", stdin=b"f\n" * 96)
            while line and "lag 100" not in line:
                line = watching.stdout.readline().decode()
            watching.send_signal(signal.SIGINT)
            watching.communicate(timeout=_TIMEOUT_S)
        finally:
            watching.kill()
    assert line.split()[-1].startswith("+")
    assert watching.returncode == 0


# --- reset -------------------------------------------------------------------------------------


def test_a_plan_changes_nothing(cli: Cli, topic_of_ten: str, group: str) -> None:
    commit(cli, group, (topic_of_ten, 0, 3))

    done = cli("groups", "reset", group, "--topic", topic_of_ten, "--to-latest")

    lines = [line.split() for line in done.stdout.decode().splitlines()]
    assert lines[1:] == [[topic_of_ten, "0", "3", "5", "0"], [topic_of_ten, "1", "-", "5", "0"]]
    assert b"nothing was changed; --execute does it" in done.stderr
    assert committed(cli, group) == {0: 3}


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (["--to-earliest"], {0: 0, 1: 0}),
        (["--to-latest"], {0: 5, 1: 5}),
        (["--to-offset", "0"], {0: 0, 1: 0}),
        (["--to-offset", "2"], {0: 2, 1: 2}),
        (["--to-offset", "99"], {0: 5, 1: 5}),
        (["--shift-by", "1"], {0: 4, 1: 2}),
        (["--shift-by", "-2"], {0: 1, 1: 0}),
        (["--to-datetime", "2001-01-01T00:00:00Z"], {0: 0, 1: 0}),
        (["--by-duration", "P1D"], {0: 0, 1: 0}),
        (["--by-duration", "0s"], {0: 5, 1: 5}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_reset(
    cli: Cli, topic_of_ten: str, group: str, target: list[str], expected: dict[int, int]
) -> None:
    commit(cli, group, (topic_of_ten, 0, 3), (topic_of_ten, 1, 1))

    plan = cli.json("groups", "reset", group, "--all-topics", *target, "--execute")

    assert plan["executed"]
    assert {move["partition"]: move["new_offset"] for move in plan["partitions"]} == expected
    assert committed(cli, group) == expected


def test_reset_by_time_finds_the_record(cli: Cli, topic_of_ten: str, group: str) -> None:
    time.sleep(0.01)
    between_ms = str(int(time.time() * 1000))
    cli("produce", topic_of_ten, "--partition", "0", stdin=b"late\n")

    cli("groups", "reset", group, "-t", topic_of_ten, "--to-datetime", between_ms, "--execute")

    assert committed(cli, group) == {0: 5, 1: 5}
    (found,) = cli.json("groups", "describe", group)
    assert found["lag"] == 1


def test_reset_from_a_file_and_only_what_it_names(cli: Cli, topic_of_ten: str, group: str) -> None:
    commit(cli, group, (topic_of_ten, 0, 3), (topic_of_ten, 1, 1))
    lines = f"{topic_of_ten},1,4\n".encode()

    cli("groups", "reset", group, "--from-file", "-", "--execute", stdin=lines)

    assert committed(cli, group) == {0: 3, 1: 4}


def test_reset_makes_a_group_that_was_not_there(cli: Cli, topic_of_ten: str, group: str) -> None:
    done = cli(
        "groups", "reset", group, "--topic", f"{topic_of_ten}:1", "--to-offset", "2", "--execute"
    )

    assert f"there is no group '{group}'" in done.stderr.decode()
    assert committed(cli, group) == {1: 2}
    found = listed(cli, group)
    assert found is not None
    assert (found["state"], found["type"], found["members"], found["lag"]) == (
        "Empty",
        "classic",
        0,
        3,
    )


def test_consumers_go_on_from_there(cli: Cli, topic_of_ten: str, group: str, protocol: str) -> None:
    with members(cli, group, topic_of_ten, protocol=protocol) as (consumer,):
        consumer.commit(offsets=[TopicPartition(topic_of_ten, 0, 1)], asynchronous=False)
    cli("groups", "reset", group, "-t", topic_of_ten, "--to-offset", "4", "--execute")

    found: list[int | None] = []
    with members(cli, group, topic_of_ten, protocol=protocol) as (consumer,):
        deadline_s = time.monotonic() + _TIMEOUT_S
        positions: list[int] = []
        while positions != [5, 5]:
            assert time.monotonic() < deadline_s, found
            if (record := consumer.poll(0.1)) is not None:
                found.append(record.offset())
            positions = [part.offset for part in consumer.position(consumer.assignment())]
    assert set(found) <= {4}


def test_an_active_group_is_left_alone(
    cli: Cli, topic_of_ten: str, group: str, protocol: str
) -> None:
    with members(cli, group, topic_of_ten, protocol=protocol) as (consumer,):
        consumer.commit(offsets=[TopicPartition(topic_of_ten, 0, 3)], asynchronous=False)

        reset = ("groups", "reset", group, "-t", topic_of_ten, "--to-earliest", "--execute")
        assert f"'{group}' is active (Stable, members: 1); stop its consumers" in cli.fails(*reset)
        assert "NON_EMPTY_GROUP" in cli.fails("groups", "delete", group)
        deletion = cli.fails("groups", "delete-offsets", group, "-t", f"{topic_of_ten}:0")
        assert "members of the group are reading the topic" in deletion
        assert committed(cli, group) == {0: 3}


def test_what_is_not_there_is_not_reset(cli: Cli, topic_of_ten: str, group: str) -> None:
    reset = ("groups", "reset", group, "--to-earliest")
    assert "there is no topic" in cli.fails(*reset, "-t", f"{topic_of_ten}-not")
    assert "has 2 partitions, and no 2, 7" in cli.fails(*reset, "-t", f"{topic_of_ten}:0,2,7")


# --- delete ------------------------------------------------------------------------------------


def test_delete(cli: Cli, topic_of_ten: str, group: str) -> None:
    commit(cli, group, (topic_of_ten, 0, 3))
    other = f"{group}-not"

    done = cli("groups", "delete", group, other, "--json", exit_code=1)

    answer = json.loads(done.stdout)
    assert answer["deleted"] == [group]
    assert "GROUP_ID_NOT_FOUND" in answer["failed"][other]
    assert listed(cli, group) is None


def test_delete_offsets(cli: Cli, topic_of_ten: str, group: str) -> None:
    commit(cli, group, (topic_of_ten, 0, 3), (topic_of_ten, 1, 1))

    delete = ("groups", "delete-offsets", group, "--topic")
    assert cli.out(*delete, f"{topic_of_ten}:1") == f"deleted {topic_of_ten}:1\n"
    assert committed(cli, group) == {0: 3}
    assert f"committed nothing in {topic_of_ten}:1" in cli.fails(*delete, f"{topic_of_ten}:0,1")
    answer = cli.json(*delete, topic_of_ten)
    assert answer == {"deleted": [f"{topic_of_ten}:0"], "failed": {}}
