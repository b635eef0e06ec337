"""Consumer groups (KIP-848), answer by answer beside Apache Kafka."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from ottla.kernel.errors import ErrorCode
from ottla.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from ottla.wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    TopicPartition,
    decode_embedded,
    encode_embedded,
)
from ottla.wire.messages.delete_groups import DeleteGroupsRequest
from ottla.wire.messages.describe_groups import DescribeGroupsRequest
from ottla.wire.messages.list_groups import ListGroupsRequest
from tests.support.raw_group import RawMember, commit_request, wait_for_coordinator
from tests.support.side_by_side import Both, Subject, assert_alike

PARTITIONS = 4
PAUSE_S = 1.1
"""Longer than group.consumer.assignment.interval.ms, within which no assignment follows another."""
POLL_S = 0.05
TIMEOUT_S = 30


class Stage:
    """A group on one of the brokers, and everything that was seen there. Which partitions a
    member gets is each broker's own affair, so only how many is compared."""

    def __init__(self, subject: Subject, topic: str) -> None:
        self.subject = subject
        self.topic = topic
        self.group = topic
        self.seen: list[Any] = []
        self.owned: dict[str, set[int]] = {}
        self._classic: list[RawMember] = []
        subject.create(topic, PARTITIONS)
        wait_for_coordinator(subject.ask, self.group)

    def beat(self, member: str, epoch: int, *, version: int = 1, **fields: Any) -> Any:
        owned = fields.pop("owned", None)
        if owned is not None:
            fields["topic_partitions"] = self._listed(owned)
        request = ConsumerGroupHeartbeatRequest(
            **{"group_id": self.group, "member_id": member, "member_epoch": epoch, **fields}
        )
        answer = self.subject.ask(request, version)
        if answer.assignment is not None:
            self.owned[member] = {
                partition
                for topic in answer.assignment.topic_partitions
                for partition in topic.partitions
            }
        return answer

    def join(self, member: str, **fields: Any) -> Any:
        return self.beat(
            member,
            0,
            **{
                "topic_partitions": [],
                "rebalance_timeout_ms": 60_000,
                "subscribed_topic_names": [self.topic],
                **fields,
            },
        )

    def classic(self, instance_id: str | None = None) -> RawMember:
        member = RawMember(self.subject.bootstrap, self.group, instance_id)
        self._classic.append(member)
        return member

    def _listed(self, partitions: set[int]) -> list[TopicPartitions]:
        if not partitions:
            return []
        topic_id = self.subject.topic_ids[self.topic]
        return [TopicPartitions(topic_id=topic_id, partitions=sorted(partitions))]

    def saw(self, answer: Any) -> Any:
        assignment = answer.assignment
        self.seen.append(
            {
                "error": ErrorCode(answer.error_code).name,
                "message": answer.error_message is not None,
                "epoch": answer.member_epoch,
                "interval": answer.heartbeat_interval_ms,
                "assigned": None if assignment is None else _size(assignment.topic_partitions),
            }
        )
        return answer

    def saw_code(self, answer: Any) -> Any:
        self.seen.append(ErrorCode(answer.error_code).name)
        return answer

    def saw_group(self) -> None:
        request = ConsumerGroupDescribeRequest(group_ids=[self.group])
        group = self.subject.ask(request, 1).groups[0]
        self.seen.append(
            {
                "error": ErrorCode(group.error_code).name,
                "state": group.group_state,
                "epochs": (group.group_epoch, group.assignment_epoch),
                "assignor": group.assignor_name,
                "members": sorted(
                    (
                        member.instance_id or "",
                        member.rack_id or "",
                        member.member_epoch,
                        member.client_id,
                        len(member.subscribed_topic_names),
                        bool(member.subscribed_topic_regex),
                        _size(member.assignment.topic_partitions),
                        _size(member.target_assignment.topic_partitions),
                        member.member_type,
                    )
                    for member in group.members
                ),
            }
        )

    def saw_listed(self) -> None:
        groups = self.subject.ask(ListGroupsRequest(), 5).groups
        self.seen += [
            (group.group_state, group.group_type, group.protocol_type)
            for group in groups
            if group.group_id == self.group
        ]
        described = self.subject.ask(DescribeGroupsRequest(groups=[self.group]), 6).groups[0]
        self.seen.append((ErrorCode(described.error_code).name, described.group_state))

    def close(self) -> None:
        for member in self._classic:
            member.close()


def _size(listed: list[Any]) -> int:
    return sum(len(topic.partitions) for topic in listed)


def assert_same_play(both: Both, topic: str, play: Callable[[Stage], None]) -> None:
    def scenario(subject: Subject) -> Any:
        stage = Stage(subject, topic)
        try:
            play(stage)
        finally:
            stage.close()
        return stage.seen

    assert_alike(both, scenario)


def two_members(stage: Stage) -> None:
    """Each with its half, in epoch 3."""
    stage.saw(stage.join("a"))
    time.sleep(PAUSE_S)
    stage.saw(stage.join("b"))
    stage.saw(stage.beat("a", 2))
    stage.saw(stage.beat("a", 2, owned=stage.owned["a"]))
    stage.saw(stage.beat("b", 3))


def test_one_member(both: Both, topic: str) -> None:
    def play(stage: Stage) -> None:
        stage.saw_group()
        stage.saw(stage.beat("a", 2))
        stage.saw(stage.beat("a", -1))
        stage.saw(stage.join("a", rack_id="rack"))
        stage.saw_group()
        stage.saw_listed()
        everything = set(range(PARTITIONS))
        stage.saw(stage.beat("a", 2))
        stage.saw(stage.beat("a", 2, owned=everything))
        stage.saw(
            stage.beat(
                "a",
                2,
                owned=everything,
                rebalance_timeout_ms=60_000,
                subscribed_topic_names=[stage.topic],
            )
        )
        stage.saw(stage.beat("a", 3))
        stage.saw(stage.beat("other", 2))
        stage.saw(stage.join("a"))
        stage.saw(stage.beat("other", -1))
        stage.saw(stage.beat("a", -1))
        stage.saw(stage.beat("a", 2))
        stage.saw_group()
        stage.saw_listed()

    assert_same_play(both, topic, play)


@pytest.mark.parametrize(
    "fields",
    [
        {"group_id": ""},
        {"group_id": " "},
        {"member_id": ""},
        {"member_id": " "},
        {"member_id": "", "member_epoch": 1},
        {"member_id": "", "member_epoch": -1},
        {"member_epoch": -2},
        {"member_epoch": -3},
        {"instance_id": ""},
        {"rack_id": " "},
        {"rebalance_timeout_ms": -1},
        {"topic_partitions": None},
        {"topic_partitions": [TopicPartitions(partitions=[0])]},
        {"subscribed_topic_names": None},
        {"subscribed_topic_names": []},
        {"server_assignor": "none"},
        {"server_assignor": "range"},
    ],
    ids=str,
)
@pytest.mark.parametrize("version", [0, 1])
def test_requests(both: Both, topic: str, version: int, fields: dict[str, Any]) -> None:
    def play(stage: Stage) -> None:
        stage.saw(stage.join("a", version=version, **fields))

    assert_same_play(both, topic, play)


def test_partitions_move(both: Both, topic: str) -> None:
    def play(stage: Stage) -> None:
        stage.join("a")
        time.sleep(PAUSE_S)
        stage.saw(stage.join("b"))
        stage.saw_group()
        stage.saw(stage.beat("b", 3))
        stage.saw(stage.beat("a", 2, owned=set(range(PARTITIONS))))
        stage.saw_group()
        stage.saw(stage.beat("a", 2))
        stage.saw(stage.beat("a", 2, owned=set(range(PARTITIONS))))
        stage.saw(stage.beat("a", 2, owned=stage.owned["a"]))
        stage.saw_group()
        stage.saw(stage.beat("b", 3))
        stage.saw_group()
        # Its answer was lost, or it has something else.
        stage.saw(stage.beat("a", 2, owned=stage.owned["a"]))
        stage.saw(stage.beat("a", 2))
        stage.saw(stage.beat("a", 2, owned=stage.owned["b"]))
        stage.saw(stage.beat("a", 0, topic_partitions=[], rebalance_timeout_ms=60_000))
        time.sleep(PAUSE_S)
        stage.saw(stage.beat("b", -1))
        stage.saw_group()
        stage.saw(stage.beat("a", 3))
        stage.saw_group()

    assert_same_play(both, topic, play)


def test_changes_close_together_are_assigned_once(both: Both, topic: str) -> None:
    def play(stage: Stage) -> None:
        stage.saw(stage.join("a"))
        stage.saw(stage.join("b"))
        stage.saw(stage.join("c"))
        stage.saw_group()
        time.sleep(PAUSE_S)
        stage.saw(stage.beat("b", 2))
        stage.saw_group()

    assert_same_play(both, topic, play)


def test_a_subscription_changes(both: Both, topic: str) -> None:
    def play(stage: Stage) -> None:
        stage.saw(stage.join("a"))
        stage.saw(stage.beat("a", 2, subscribed_topic_names=[]))
        stage.saw_group()
        time.sleep(PAUSE_S)
        stage.saw(stage.beat("a", 2, owned=set()))
        stage.saw_group()
        time.sleep(PAUSE_S)
        stage.saw(stage.beat("a", 3, subscribed_topic_names=[stage.topic, "missing"]))
        stage.saw_group()

    assert_same_play(both, topic, play)


def test_static_members(both: Both, topic: str) -> None:
    def play(stage: Stage) -> None:
        static: dict[str, Any] = {"instance_id": "i"}
        stage.saw(stage.join("a", **static))
        stage.saw(stage.join("b", **static))
        stage.saw(stage.join("a", **static))
        stage.saw(stage.beat("b", 2, **static))
        stage.saw(stage.beat("a", 2, instance_id="j"))
        stage.saw(stage.beat("b", -2, **static))
        stage.saw(stage.beat("a", -2, **static))
        stage.saw_group()
        stage.saw(stage.beat("a", 2, **static))
        stage.saw(stage.join("b", **static))
        stage.saw_group()
        stage.saw(stage.beat("a", 2, **static))
        stage.saw(stage.beat("a", 2))
        stage.saw(stage.beat("b", 2, **static))
        stage.saw(stage.beat("a", -1, **static))
        stage.saw(stage.beat("b", -1, **static))
        stage.saw_group()

    assert_same_play(both, topic, play)


def test_expressions(both: Both, topic: str) -> None:
    def play(stage: Stage) -> None:
        regex = {"subscribed_topic_names": None, "subscribed_topic_regex": f"{stage.topic}.*"}
        stage.saw_code(stage.join("a", **{**regex, "subscribed_topic_regex": "("}))
        stage.saw_code(stage.join("a", **{**regex, "subscribed_topic_regex": "(?=a)"}))
        joined = stage.join("a", **regex)
        # Apache Kafka resolves it in the background, and tells by a later heartbeat.
        if not stage.owned.get("a"):
            epoch = joined.member_epoch
            stage.owned.clear()
            while not stage.owned.get("a"):
                time.sleep(POLL_S)
                epoch = stage.beat("a", epoch).member_epoch
        stage.seen.append(stage.owned["a"])
        stage.saw_code(stage.beat("a", -1))

    assert_same_play(both, topic, play)


def test_commits_and_fetches(both: Both, topic: str) -> None:
    def play(stage: Stage) -> None:
        two_members(stage)
        (mine, *_), (other, *_) = stage.owned["a"], stage.owned["b"]
        subject = stage.subject
        for member_id, epoch, partition, version in (
            ("a", 3, mine, 10),
            ("a", 3, mine, 9),
            ("a", 3, mine, 8),
            ("a", 3, other, 10),
            ("a", 4, mine, 10),
            ("a", 2, mine, 10),
            ("a", 2, mine, 9),
            ("a", 2, other, 10),
            ("b", 2, other, 10),
            ("c", 3, mine, 10),
            ("", -1, mine, 10),
        ):
            request = commit_request(
                stage.group,
                {stage.topic: {partition: 5}},
                topic_ids=subject.topic_ids if version >= 10 else None,
                member_id=member_id,
                generation_id_or_member_epoch=epoch,
            )
            answer = subject.ask(request, version).topics[0].partitions[0]
            stage.seen.append((member_id, epoch, ErrorCode(answer.error_code).name))

    assert_same_play(both, topic, play)


def test_deleting(both: Both, topic: str) -> None:
    def play(stage: Stage) -> None:
        stage.join("a")
        delete = DeleteGroupsRequest(groups_names=[stage.group])
        stage.saw_code(stage.subject.ask(delete, 2).results[0])
        stage.beat("a", -1)
        stage.saw_code(stage.subject.ask(delete, 2).results[0])
        stage.saw_group()
        stage.saw_listed()

    assert_same_play(both, topic, play)


# -- both protocols in one group ------------------------------------------------------------


def _assigned(synced: Any) -> set[int]:
    assignment = decode_embedded(ConsumerProtocolAssignment, synced.assignment)
    return {number for topic in assignment.assigned_partitions for number in topic.partitions}


def test_a_classic_member_in_a_consumer_group(both: Both, topic: str) -> None:
    def play(stage: Stage) -> None:
        stage.saw(stage.join("a"))
        time.sleep(PAUSE_S)
        old = stage.classic()
        joined = stage.saw_code(old.join(stage.topic))
        stage.seen.append((joined.generation_id, joined.leader, joined.protocol_name))
        stage.seen.append(_assigned(stage.saw_code(old.sync())))
        stage.saw_code(old.heartbeat())
        stage.saw_group()
        stage.saw(stage.beat("a", 2))
        stage.saw(stage.beat("a", 2, owned=stage.owned["a"]))
        stage.saw_code(old.heartbeat())
        stage.saw_code(old.join(stage.topic))
        stage.seen.append(len(_assigned(stage.saw_code(old.sync()))))
        stage.saw_code(old.heartbeat())
        stage.saw_group()
        stage.saw_listed()
        # The last of the newer protocol goes.
        stage.saw(stage.beat("a", -1))
        stage.saw_group()
        stage.saw_listed()
        deadline_s = time.monotonic() + TIMEOUT_S
        while old.heartbeat().error_code == ErrorCode.NONE and time.monotonic() < deadline_s:
            time.sleep(POLL_S)
        stage.saw_code(old.heartbeat())
        joined = stage.saw_code(old.join(stage.topic))
        stage.seen.append((joined.generation_id, joined.leader == old.member_id))

    assert_same_play(both, topic, play)


def test_a_member_changes_its_protocol(both: Both, topic: str) -> None:
    def play(stage: Stage) -> None:
        stage.saw(stage.join("a"))
        time.sleep(PAUSE_S)
        old = stage.classic()
        stage.saw_code(old.join(stage.topic))
        stage.saw_code(old.sync())
        stage.saw(stage.beat(old.member_id, old.generation_id))
        stage.saw_group()
        stage.saw_code(old.heartbeat())
        stage.saw(stage.beat("a", -1))
        stage.saw_group()
        joined = stage.saw_code(old.join(stage.topic))
        stage.seen.append((joined.generation_id, joined.leader == old.member_id))
        stage.saw_group()

    assert_same_play(both, topic, play)


def test_a_static_member_changes_its_protocol(both: Both, topic: str) -> None:
    def play(stage: Stage) -> None:
        stage.saw(stage.join("a", instance_id="i"))
        stage.saw(stage.join("b"))
        old = stage.classic("i")
        joined = stage.saw_code(old.join(stage.topic))
        stage.seen.append(joined.generation_id)
        stage.saw(stage.beat("a", 2, instance_id="i"))
        stage.saw_group()
        stage.saw(stage.beat("b", -1))
        stage.saw_group()
        stage.saw_listed()

    assert_same_play(both, topic, play)


def test_a_classic_group_is_upgraded(both: Both, topic: str) -> None:
    def play(stage: Stage) -> None:
        old = stage.classic()
        stage.saw_code(old.join(stage.topic))
        stage.saw_code(old.sync({old.member_id: _all_of(stage.topic)}))
        stage.saw(stage.join("a"))
        stage.saw_group()
        stage.saw_code(old.heartbeat())
        stage.saw_code(old.sync())
        # It does not say that it has any partitions, as those do that stop before they join.
        joined = stage.saw_code(old.join(stage.topic))
        stage.seen.append(joined.generation_id)
        stage.seen.append(len(_assigned(stage.saw_code(old.sync()))))
        stage.saw(stage.beat("a", 3))
        stage.saw_group()
        stage.saw_code(old.leave().members[0])
        stage.saw_group()

    assert_same_play(both, topic, play)


def _all_of(topic: str) -> bytes:
    return encode_embedded(
        ConsumerProtocolAssignment(
            assigned_partitions=[TopicPartition(topic=topic, partitions=list(range(PARTITIONS)))]
        ),
        1,
    )


def test_an_empty_consumer_group_gives_way(both: Both, topic: str) -> None:
    def play(stage: Stage) -> None:
        stage.join("a")
        stage.beat("a", -1)
        old = stage.classic()
        joined = stage.saw_code(old.join(stage.topic))
        stage.seen.append((joined.generation_id, joined.leader == old.member_id))
        stage.saw_code(old.sync({old.member_id: b""}))
        stage.saw_listed()

    assert_same_play(both, topic, play)
