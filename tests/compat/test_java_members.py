"""Apache Kafka's own consumer as a member of groups: assignors, static members, and what else its
users do with it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.compat.test_confluent_consumer_protocol import QUICK
from tests.conftest import MakeBroker
from tests.support.group_members import wait_until
from tests.support.java_members import Event, JavaMember, JavaMembers
from tests.support.need import need_apache_kafka
from tests.support.ottla_process import OttlaProcess

TIMEOUT_S = 60


@pytest.fixture(scope="module")
def jvm() -> Iterator[JavaMembers]:
    need_apache_kafka()
    members = JavaMembers()
    yield members
    members.close()


@pytest.fixture
def java(jvm: JavaMembers) -> Iterator[JavaMembers]:
    yield jvm
    for member in list(jvm.open):
        member.close()


@pytest.fixture
def bootstrap(shared_broker: OttlaProcess) -> str:
    return shared_broker.bootstrap


def create(bootstrap: str, *topics: str, partition_count: int = 3) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    wanted = [NewTopic(topic, partition_count, 1) for topic in topics]
    for future in admin.create_topics(wanted).values():
        future.result(TIMEOUT_S)


def produce(bootstrap: str, topic: str, *values: str, partition: int = 0, **fields: Any) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for value in values:
        producer.produce(topic, value, partition=partition, **fields)
    assert producer.flush(TIMEOUT_S) == 0


def of(*names: str, **partitions: list[int]) -> list[str]:
    return sorted(f"{name}-{number}" for name in names for number in partitions[name[-1]])


def wait_until_owned(member: JavaMember, partitions: list[str]) -> None:
    wait_until(lambda: member.show().owned == partitions, f"{member.name} has {partitions}")


def wait_until_balanced(count: int, *members: JavaMember) -> list[list[str]]:
    """Each partition has one owner, and all have as many. Returns who has which."""

    def is_balanced() -> bool:
        owned = [member.show().owned for member in members]
        all_owned = [partition for each in owned for partition in each]
        sizes = {len(each) for each in owned}
        return len(all_owned) == len(set(all_owned)) == count and len(sizes) == 1

    wait_until(is_balanced, f"{count} partitions for {len(members)} members")
    return [member.show().owned for member in members]


def moved(events: list[Event]) -> list[Event]:
    """Without those that name nothing: a cooperative member hears of every rebalance."""
    return [(kind, partitions) for kind, partitions in events if partitions]


# -- assignors ------------------------------------------------------------------------------

ASSIGNORS = "org.apache.kafka.clients.consumer"


@pytest.mark.parametrize(
    ("assignor", "first", "second"),
    [
        ("RangeAssignor", {"a": [0, 1], "b": [0, 1]}, {"a": [2], "b": [2]}),
        ("RoundRobinAssignor", {"a": [0, 2], "b": [1]}, {"a": [1], "b": [0, 2]}),
    ],
)
def test_assignors_that_begin_anew(
    java: JavaMembers,
    bootstrap: str,
    topic: str,
    assignor: str,
    first: dict[str, list[int]],
    second: dict[str, list[int]],
) -> None:
    a, b = f"{topic}-a", f"{topic}-b"
    create(bootstrap, a, b)
    settings = {"partition_assignment_strategy": f"{ASSIGNORS}.{assignor}"}
    one = java.subscribe(bootstrap, topic, f"{a},{b}", **settings)
    everything = of(a, b, a=[0, 1, 2], b=[0, 1, 2])
    wait_until_owned(one, everything)
    two = java.subscribe(bootstrap, topic, f"{a},{b}", **settings)
    wait_until_owned(one, of(a, b, **first))
    wait_until_owned(two, of(a, b, **second))
    two.close()
    wait_until_owned(one, everything)
    events = one.show().events
    assert events[:2] == [("assigned", everything), ("revoked", everything)]
    assert events[2] == ("assigned", of(a, b, **first))


@pytest.mark.parametrize("assignor", ["StickyAssignor", "CooperativeStickyAssignor"])
def test_assignors_that_leave_members_what_they_have(
    java: JavaMembers, bootstrap: str, topic: str, assignor: str
) -> None:
    create(bootstrap, topic, partition_count=6)
    settings = {"partition_assignment_strategy": f"{ASSIGNORS}.{assignor}"}
    one = java.subscribe(bootstrap, topic, topic, **settings)
    ((*everything,),) = wait_until_balanced(6, one)
    two = java.subscribe(bootstrap, topic, topic, **settings)
    before = wait_until_balanced(6, one, two)
    three = java.subscribe(bootstrap, topic, topic, **settings)
    *after, last = wait_until_balanced(6, one, two, three)
    for had, has in zip(before, after, strict=True):
        assert set(has) < set(had), "of three it keeps two"
    if assignor == "CooperativeStickyAssignor":
        assert moved(one.show().events) == [
            ("assigned", everything),
            ("revoked", sorted(set(everything) - set(before[0]))),
            ("revoked", sorted(set(before[0]) - set(after[0]))),
        ], "what it keeps is not taken from it"
        assert moved(three.show().events) == [("assigned", last)]


def test_an_assignor_of_its_own(java: JavaMembers, bootstrap: str, topic: str) -> None:
    """The broker hands on what members say of themselves, and knows nothing of it."""
    create(bootstrap, topic)
    everything = of(topic, **{topic[-1]: [0, 1, 2]})

    def join(weight: int) -> JavaMember:
        return java.subscribe(
            bootstrap,
            topic,
            topic,
            partition_assignment_strategy="HeaviestTakesAll",
            weight=str(weight),
        )

    light = join(5)
    wait_until_owned(light, everything)
    heavy = join(70)
    wait_until_owned(heavy, everything)
    wait_until_owned(light, [])
    middle = join(60)
    wait_until(lambda: ("assigned", []) in middle.show().events, "it has joined")
    heavy.close()
    wait_until_owned(middle, everything)
    assert light.show().owned == []


# -- static members -------------------------------------------------------------------------


def test_a_static_member_comes_back_without_a_rebalance(
    java: JavaMembers, bootstrap: str, topic: str
) -> None:
    create(bootstrap, topic, partition_count=6)
    one, two = (
        java.subscribe(bootstrap, topic, topic, group_instance_id=name) for name in ("one", "two")
    )
    _, before = wait_until_balanced(6, one, two)
    events = one.show().events
    two.close()
    again = java.subscribe(bootstrap, topic, topic, group_instance_id="two")
    wait_until_owned(again, before)
    assert one.show().events == events, "the other one has not noticed"


def test_two_with_one_instance_id(java: JavaMembers, bootstrap: str, topic: str) -> None:
    """The later one is taken for the restarted first, which is fenced."""
    create(bootstrap, topic)
    everything = of(topic, **{topic[-1]: [0, 1, 2]})
    first = java.subscribe(bootstrap, topic, topic, group_instance_id="one")
    wait_until_owned(first, everything)
    second = java.subscribe(bootstrap, topic, topic, group_instance_id="one")
    wait_until_owned(second, everything)
    wait_until(lambda: bool(first.show().error), "the first is fenced")
    assert first.show().error == "FencedInstanceIdException"
    assert second.show().error == ""


def test_static_members_and_patterns_with_the_brokers_protocol(
    make_broker: MakeBroker, java: JavaMembers, topic: str
) -> None:
    """KIP-848: there a second one with the same id is refused until the first has left."""
    bootstrap = make_broker(settings=QUICK).bootstrap
    create(bootstrap, f"{topic}-a", f"{topic}-other")
    everything = [f"{topic}-a-{number}" for number in range(3)]

    def join(**settings: str) -> JavaMember:
        return java.subscribe(
            bootstrap, topic, f"~{topic}-.", group_protocol="consumer", **settings
        )

    first = join(group_instance_id="one")
    wait_until_owned(first, everything)
    second = join(group_instance_id="one")
    wait_until(lambda: bool(second.show().error), "the second is refused")
    assert second.show().error == "UnreleasedInstanceIdException"
    create(bootstrap, f"{topic}-b")
    wait_until_owned(first, everything + [f"{topic}-b-{number}" for number in range(3)])
    first.close()
    again = join(group_instance_id="one")
    wait_until(lambda: len(again.show().owned) == 6, "it is back")


# -- what else users do ---------------------------------------------------------------------


def test_a_pattern_finds_topics_that_come_later(
    java: JavaMembers, bootstrap: str, topic: str
) -> None:
    create(bootstrap, f"{topic}-a", partition_count=1)
    member = java.subscribe(bootstrap, topic, f"^{topic}-.")
    wait_until_owned(member, [f"{topic}-a-0"])
    create(bootstrap, f"{topic}-b", f"{topic}-other", partition_count=1)
    wait_until_owned(member, [f"{topic}-a-0", f"{topic}-b-0"])


@pytest.mark.parametrize("how", ["sync", "async", "auto"])
def test_ways_to_commit(java: JavaMembers, bootstrap: str, topic: str, how: str) -> None:
    """Seen by the next member, which goes on from there; by `max.poll.records` at a time."""
    create(bootstrap, topic, partition_count=1)
    produce(bootstrap, topic, *map(str, range(10)))
    settings = {"enable_auto_commit": str(how == "auto").lower(), "max_poll_records": "3"}
    first = java.subscribe(bootstrap, topic, topic, **settings)
    wait_until(lambda: len(first.show().values) == 10, "all are read")
    assert first.show().poll_max == 3
    if how != "auto":
        first.commit(how)
        wait_until(lambda: bool(first.show().commits), "it is told")
        assert first.show().commits == [how]
    first.close()
    produce(bootstrap, topic, "next")
    second = java.subscribe(bootstrap, topic, topic, **settings)
    wait_until(lambda: bool(second.show().values), "it reads on")
    assert second.show().values == ["next"]


def test_manual_assignment_with_and_without_a_group(
    java: JavaMembers, bootstrap: str, topic: str
) -> None:
    create(bootstrap, topic, partition_count=2)
    for number in range(2):
        produce(bootstrap, topic, *"abc", partition=number)
    alone = java.assign(bootstrap, topic, enable_auto_commit="false")
    first = java.assign(bootstrap, topic, group_id=topic, enable_auto_commit="false")
    wait_until(lambda: len(alone.show().values) == 6, "all are read without a group")
    wait_until(lambda: len(first.show().values) == 6, "all are read with one")
    first.commit("sync")
    wait_until(lambda: first.show().commits == ["sync"], "it is committed")
    first.close()
    produce(bootstrap, topic, "d")
    second = java.assign(bootstrap, topic, group_id=topic)
    wait_until(lambda: bool(second.show().values), "it reads on")
    assert second.show().values == ["d"]
    alone.commit("sync")
    wait_until(lambda: bool(alone.show().error), "without a group nothing can be committed")
    assert alone.show().error == "InvalidGroupIdException"


def test_seek_by_timestamp(java: JavaMembers, bootstrap: str, topic: str) -> None:
    create(bootstrap, topic, partition_count=2)
    first_ms = time.time_ns() // 1_000_000
    for number in range(10):
        produce(bootstrap, topic, str(number), partition=number % 2, timestamp=first_ms + number)
    member = java.subscribe(bootstrap, topic, topic)
    wait_until(lambda: len(member.show().values) == 10, "all are read")
    member.seek(first_ms + 6)
    wait_until(lambda: len(member.show().values) == 4, "some are read again")
    assert sorted(member.show().values) == ["6", "7", "8", "9"]


def test_where_to_begin_without_an_offset(java: JavaMembers, bootstrap: str, topic: str) -> None:
    create(bootstrap, topic, partition_count=1)
    produce(bootstrap, topic, "before")
    latest = java.subscribe(bootstrap, f"{topic}-1", topic, auto_offset_reset="latest")
    none = java.subscribe(bootstrap, f"{topic}-2", topic, auto_offset_reset="none")
    wait_until(lambda: bool(none.show().error), "it has nowhere to begin")
    assert none.show().error == "NoOffsetForPartitionException"
    # Where the end was when it looked: records come until it has seen one.
    numbers = iter(range(1_000_000))

    def has_begun() -> bool:
        produce(bootstrap, topic, str(next(numbers)))
        return bool(latest.show().values)

    wait_until(has_begun, "it reads what comes")
    assert "before" not in latest.show().values
