"""Groups of consumers that nobody here wrote: alone, of several makes, and one after the other."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.group_members import (
    MEMBERS,
    AiokafkaMember,
    ConfluentMember,
    GroupMember,
    wait_until,
    wait_until_shared,
)
from tests.support.ottla_process import OttlaProcess

PARTITION_COUNT = 6
TIMEOUT_S = 60


def create(bootstrap: str, topic: str, partition_count: int = PARTITION_COUNT) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, partition_count, 1)])[topic].result(TIMEOUT_S)


def produce(bootstrap: str, topic: str, numbers: range, **fields: Any) -> set[tuple[int, bytes]]:
    producer = Producer({"bootstrap.servers": bootstrap})
    sent = set()
    for number in numbers:
        partition = number % PARTITION_COUNT
        producer.produce(topic, b"%d" % number, partition=partition, **fields)
        sent.add((partition, b"%d" % number))
    assert producer.flush(TIMEOUT_S) == 0
    return sent


def consumer_of(bootstrap: str, group: str, **settings: Any) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
    )


def committed(bootstrap: str, group: str, topic: str) -> list[int]:
    consumer = consumer_of(bootstrap, group)
    wanted = [TopicPartition(topic, number) for number in range(PARTITION_COUNT)]
    found = consumer.committed(wanted, TIMEOUT_S)
    consumer.close()
    return [one.offset for one in found]


def seen_by(*members: GroupMember) -> list[tuple[int, bytes]]:
    return sorted(one for member in members for one in list(member.seen))


def wait_until_seen(members: list[GroupMember], count: int) -> None:
    wait_until(lambda: len(seen_by(*members)) >= count, f"{count} records are read")


def share_and_take_over(
    bootstrap: str, topic: str, make: list[Callable[[str, str, str], GroupMember]]
) -> None:
    """They share the partitions, then leave one by one; every record is read once."""
    create(bootstrap, topic)
    members: list[GroupMember] = []
    try:
        for each in make:
            members.append(each(bootstrap, topic, topic))
        wait_until_shared(PARTITION_COUNT, *members)
        sent = produce(bootstrap, topic, range(120))
        wait_until_seen(members, len(sent))
        left = list(members)
        for number, leaving in enumerate(members[:-1], 1):
            leaving.stop()
            left.remove(leaving)
            wait_until_shared(PARTITION_COUNT, *left)
            numbers = range(120 * number, 120 * (number + 1))
            sent |= produce(bootstrap, topic, numbers)
            wait_until_seen(members, len(sent))
    finally:
        for member in members:
            member.stop()
    assert seen_by(*members) == sorted(sent), "each record once"
    total = len(sent) // PARTITION_COUNT
    assert committed(bootstrap, topic, topic) == [total] * PARTITION_COUNT


@pytest.mark.parametrize("make", MEMBERS.values(), ids=MEMBERS.keys())
def test_members_share_and_take_over(
    shared_broker: OttlaProcess, topic: str, make: Callable[[str, str, str], GroupMember]
) -> None:
    share_and_take_over(shared_broker.bootstrap, topic, [make, make, make])


@pytest.mark.parametrize("strategy", ["roundrobin", "cooperative-sticky", "range,roundrobin"])
def test_assignors_of_confluent_kafka(
    shared_broker: OttlaProcess, topic: str, strategy: str
) -> None:
    def make(bootstrap: str, group: str, topic: str) -> GroupMember:
        return ConfluentMember(bootstrap, group, topic, strategy)

    share_and_take_over(shared_broker.bootstrap, topic, [make, make])


@pytest.mark.parametrize(
    ("strategy", "first"),
    [
        ("range", {("a", 0), ("a", 1), ("b", 0), ("b", 1)}),
        ("roundrobin", {("a", 0), ("a", 2), ("b", 1)}),
    ],
)
def test_what_assignors_of_confluent_kafka_assign(
    shared_broker: OttlaProcess, topic: str, strategy: str, first: set[tuple[str, int]]
) -> None:
    """Members are in the order of their ids, which begin with the name of the client."""
    bootstrap = shared_broker.bootstrap
    names = {"a": f"{topic}-a", "b": f"{topic}-b"}
    for name in names.values():
        create(bootstrap, name, 3)
    everything = {(name, number) for name in names.values() for number in range(3)}
    wanted = {(names[name], number) for name, number in first}
    one, two = (
        ConfluentMember(bootstrap, topic, list(names.values()), strategy, client_id=client_id)
        for client_id in ("one", "two")
    )
    try:
        wait_until(lambda: one.owned == wanted, f"the first has {wanted}")
        wait_until(lambda: two.owned == everything - wanted, "the second has the others")
    finally:
        one.stop()
        two.stop()


def test_cooperative_sticky_of_confluent_kafka_takes_only_what_moves(
    shared_broker: OttlaProcess, topic: str
) -> None:
    bootstrap = shared_broker.bootstrap
    create(bootstrap, topic)
    one = ConfluentMember(bootstrap, topic, topic, "cooperative-sticky")
    try:
        wait_until_shared(PARTITION_COUNT, one)
        two = ConfluentMember(bootstrap, topic, topic, "cooperative-sticky")
        try:
            wait_until_shared(PARTITION_COUNT, one, two)
            told = [event for event in one.events if event[1]]
            assert told == [
                ("assigned", list(range(PARTITION_COUNT))),
                ("revoked", sorted(two.assigned)),
            ]
        finally:
            two.stop()
    finally:
        one.stop()


@pytest.mark.parametrize("strategy", ["roundrobin", "sticky"])
def test_assignors_of_aiokafka(shared_broker: OttlaProcess, topic: str, strategy: str) -> None:
    def make(bootstrap: str, group: str, topic: str) -> GroupMember:
        return AiokafkaMember(bootstrap, group, topic, strategy)

    share_and_take_over(shared_broker.bootstrap, topic, [make, make])


@pytest.mark.parametrize("first", MEMBERS)
def test_members_of_several_makes(shared_broker: OttlaProcess, topic: str, first: str) -> None:
    """Whoever is first leads: each assigns for all the others once."""
    makes = [MEMBERS[first], *(make for name, make in MEMBERS.items() if name != first)]
    share_and_take_over(shared_broker.bootstrap, topic, makes)


def test_assignors_must_have_one_in_common(shared_broker: OttlaProcess, topic: str) -> None:
    bootstrap = shared_broker.bootstrap
    create(bootstrap, topic)
    member = ConfluentMember(bootstrap, topic, topic, "range")
    try:
        wait_until_shared(PARTITION_COUNT, member)
        stranger = consumer_of(bootstrap, topic, partition_assignment_strategy="roundrobin")
        stranger.subscribe([topic])
        message = stranger.poll(TIMEOUT_S)
        assert message is not None
        error = message.error()
        assert error is not None
        assert error.code() == KafkaError.INCONSISTENT_GROUP_PROTOCOL
        stranger.close()
    finally:
        member.stop()


def test_a_static_member_comes_back_without_a_rebalance(
    shared_broker: OttlaProcess, topic: str
) -> None:
    bootstrap = shared_broker.bootstrap
    create(bootstrap, topic)
    one, two = (
        ConfluentMember(bootstrap, topic, topic, group_instance_id=name) for name in ("one", "two")
    )
    wait_until_shared(PARTITION_COUNT, one, two)
    events = list(one.events)
    before = set(two.assigned)
    two.stop()
    again = ConfluentMember(bootstrap, topic, topic, group_instance_id="two")
    try:
        wait_until_shared(PARTITION_COUNT, one, again)
        assert again.assigned == before
        assert one.events == events, "the other one has not noticed"
    finally:
        one.stop()
        again.stop()


def test_two_with_one_instance_id(shared_broker: OttlaProcess, topic: str) -> None:
    """The later one is taken for the restarted first, which is fenced."""
    bootstrap = shared_broker.bootstrap
    create(bootstrap, topic)
    settings = {"group_instance_id": "one", "heartbeat_interval_ms": 300}
    first = consumer_of(bootstrap, topic, **settings)
    first.subscribe([topic])
    wait_until(lambda: first.poll(0.1) is None and bool(first.assignment()), "the first is there")
    second = ConfluentMember(bootstrap, topic, topic, group_instance_id="one")
    try:
        wait_until_shared(PARTITION_COUNT, second)
        codes: list[int] = []

        def is_fenced() -> bool:
            message = first.poll(0.1)
            if message is not None and (error := message.error()) is not None:
                codes.append(error.code())
            return bool(codes)

        wait_until(is_fenced, "the first is fenced")
        assert codes[0] in (KafkaError._FATAL, KafkaError.FENCED_INSTANCE_ID)
    finally:
        second.stop()
        first.close()


def test_callbacks_come_in_order(shared_broker: OttlaProcess, topic: str) -> None:
    bootstrap = shared_broker.bootstrap
    create(bootstrap, topic)
    one = ConfluentMember(bootstrap, topic, topic)
    wait_until_shared(PARTITION_COUNT, one)
    two = ConfluentMember(bootstrap, topic, topic)
    wait_until_shared(PARTITION_COUNT, one, two)
    two.stop()
    wait_until_shared(PARTITION_COUNT, one)
    one.stop()
    everything, half = [0, 1, 2, 3, 4, 5], one.events[2][1]
    assert one.events == [
        ("assigned", everything),
        ("revoked", everything),
        ("assigned", half),
        ("revoked", half),
        ("assigned", everything),
        ("revoked", everything),
    ]
    assert [kind for kind, _ in two.events] == ["assigned", "revoked"]
    assert sorted(half + two.events[0][1]) == everything


def test_subscription_by_expression(shared_broker: OttlaProcess, topic: str) -> None:
    """Topics that begin later are found too."""
    bootstrap = shared_broker.bootstrap
    create(bootstrap, f"{topic}-a")
    member = ConfluentMember(bootstrap, topic, f"^{topic}-.*")
    try:
        produce(bootstrap, f"{topic}-a", range(6))
        wait_until(lambda: len(member.seen) == 6, "the first topic is read")
        create(bootstrap, f"{topic}-b")
        produce(bootstrap, f"{topic}-b", range(6, 12))
        wait_until(lambda: len(member.seen) == 12, "the second one too")
    finally:
        member.stop()
    assert committed(bootstrap, topic, f"{topic}-b") == [1] * PARTITION_COUNT


@pytest.mark.parametrize("how", ["sync", "async", "auto", "stored"])
def test_ways_to_commit(shared_broker: OttlaProcess, topic: str, how: str) -> None:
    bootstrap = shared_broker.bootstrap
    create(bootstrap, topic)
    produce(bootstrap, topic, range(60))
    done: list[Any] = []
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": topic,
            "auto.offset.reset": "earliest",
            "enable.auto.offset.store": how != "stored",
            "enable.auto.commit": how in ("auto", "stored"),
            "auto.commit.interval.ms": 100,
            "on_commit": lambda error, _: done.append(error),
        }
    )
    consumer.subscribe([topic])
    for _ in range(60):
        message = consumer.poll(TIMEOUT_S)
        assert message is not None
        assert message.error() is None
        if how == "stored":
            consumer.store_offsets(message)
    if how == "sync":
        consumer.commit(asynchronous=False)
    elif how == "async":
        consumer.commit(asynchronous=True)

    def is_told() -> bool:
        return how == "sync" or bool(done)

    def is_committed() -> bool:
        consumer.poll(0.1)
        return is_told() and committed(bootstrap, topic, topic) == [10] * PARTITION_COUNT

    wait_until(is_committed, "the callback, and the offsets")
    consumer.close()
    assert set(done) <= {None}, "no commit failed"


def test_metadata_and_leader_epoch_come_back(shared_broker: OttlaProcess, topic: str) -> None:
    bootstrap = shared_broker.bootstrap
    create(bootstrap, topic)
    consumer = consumer_of(bootstrap, topic)
    wanted = TopicPartition(topic, 3, 7, "why", 0)
    consumer.commit(offsets=[wanted], asynchronous=False)
    (found,) = consumer.committed([TopicPartition(topic, 3)], TIMEOUT_S)
    consumer.close()
    assert (found.offset, found.metadata, found.leader_epoch) == (7, "why", 0)


def test_a_commit_that_is_too_late(shared_broker: OttlaProcess, topic: str) -> None:
    """Of a member that the group has given up."""
    bootstrap = shared_broker.bootstrap
    create(bootstrap, topic)
    produce(bootstrap, topic, range(6))
    late = consumer_of(bootstrap, topic, session_timeout_ms=6000, max_poll_interval_ms=6000)
    late.subscribe([topic])
    message = late.poll(TIMEOUT_S)
    assert message is not None
    time.sleep(7)  # Longer than it may be silent: it leaves, and notices when it polls.
    with pytest.raises(KafkaException) as raised:
        late.commit(message=message, asynchronous=False)
    late.close()
    codes = (KafkaError.UNKNOWN_MEMBER_ID, KafkaError.ILLEGAL_GENERATION)
    assert raised.value.args[0].code() in codes


def test_seek_and_by_timestamp(shared_broker: OttlaProcess, topic: str) -> None:
    bootstrap = shared_broker.bootstrap
    create(bootstrap, topic)
    # Of today: older ones are deleted when the broker next looks, perhaps in the midst of the test.
    first_ms = time.time_ns() // 1_000_000
    for number in range(5):
        produce(bootstrap, topic, range(6 * number, 6 * number + 6), timestamp=first_ms + number)
    consumer = consumer_of(bootstrap, topic)
    consumer.subscribe([topic])
    for _ in range(30):
        assert consumer.poll(TIMEOUT_S) is not None
    wanted = [TopicPartition(topic, number, first_ms + 3) for number in range(PARTITION_COUNT)]
    by_time = consumer.offsets_for_times(wanted, TIMEOUT_S)
    assert [one.offset for one in by_time] == [3] * PARTITION_COUNT
    for one in by_time:
        consumer.seek(one)
    again = [consumer.poll(TIMEOUT_S) for _ in range(12)]
    assert sorted(int(one.value() or b"") for one in again if one) == list(range(18, 30))
    consumer.close()


def test_where_to_begin_without_an_offset(shared_broker: OttlaProcess, topic: str) -> None:
    bootstrap = shared_broker.bootstrap
    create(bootstrap, topic)
    produce(bootstrap, topic, range(6))
    earliest = ConfluentMember(bootstrap, f"{topic}-1", topic, auto_offset_reset="earliest")
    latest = ConfluentMember(bootstrap, f"{topic}-2", topic, auto_offset_reset="latest")
    none = consumer_of(bootstrap, f"{topic}-3", auto_offset_reset="error")
    try:
        wait_until_shared(PARTITION_COUNT, earliest)
        wait_until_shared(PARTITION_COUNT, latest)
        time.sleep(1)  # Until it has found out where the end is.
        sent = produce(bootstrap, topic, range(6, 12))
        wait_until(lambda: len(earliest.seen) == 12, "from the earliest on")
        wait_until(lambda: set(latest.seen) == sent, "from the latest on")
        none.subscribe([topic])
        message = none.poll(TIMEOUT_S)
        assert message is not None
        error = message.error()
        assert error is not None
        assert error.code() == KafkaError._AUTO_OFFSET_RESET
    finally:
        none.close()
        earliest.stop()
        latest.stop()


def test_members_outlive_a_restart_of_the_broker(broker: OttlaProcess, topic: str) -> None:
    create(broker.bootstrap, topic)
    members = [make(broker.bootstrap, topic, topic) for make in MEMBERS.values()]
    try:
        wait_until_shared(PARTITION_COUNT, *members)
        sent = produce(broker.bootstrap, topic, range(60))
        wait_until(lambda: len(seen_by(*members)) >= 60, "all are read")
        broker.restart()
        sent |= produce(broker.bootstrap, topic, range(60, 120))
        wait_until(lambda: set(seen_by(*members)) == sent, "the group goes on")
    finally:
        for member in members:
            member.stop()
