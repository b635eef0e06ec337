"""Offsets within transactions, answer by answer and byte by byte beside Apache Kafka."""

from __future__ import annotations

import time
from typing import Any

import pytest

from ottla.coordinators.groups.records import RECORD_TYPES, OffsetCommitKey, OffsetCommitValue
from ottla.coordinators.record import decode_record
from ottla.kernel.errors import ErrorCode
from ottla.kernel.internal_topics import CONSUMER_OFFSETS
from ottla.kernel.java import abs_hash
from ottla.records.record import iter_records
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.wire.messages.delete_groups import DeleteGroupsRequest
from ottla.wire.messages.delete_topics import DeleteTopicsRequest
from ottla.wire.messages.describe_groups import DescribeGroupsRequest
from ottla.wire.messages.list_groups import ListGroupsRequest
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from ottla.wire.messages.txn_offset_commit import TxnOffsetCommitRequest
from tests.support.raw_client import as_dict
from tests.support.raw_group import RawMember, commit_request, fetch_request, wait_for_coordinator
from tests.support.raw_transaction import IMPLICIT_ADD_SINCE, RawProducer
from tests.support.side_by_side import Both, Subject, assert_alike

VERSIONS = TxnOffsetCommitRequest.VERSIONS
MEMBERS_SINCE = 3
TIMEOUT_S = 30


class Stage:
    """A topic with two partitions, a group of the same name, and a producer, on one of the
    brokers."""

    def __init__(self, subject: Subject, topic: str, version: int = VERSIONS[-1]) -> None:
        self.subject = subject
        self.topic = self.group = topic
        self.version = version
        subject.create(topic, 2)
        wait_for_coordinator(subject.ask, topic)
        self.producer = self.make_producer()

    def make_producer(self, suffix: str = "") -> RawProducer:
        is_version_2 = self.version >= IMPLICIT_ADD_SINCE
        producer = RawProducer(self.subject.ask, f"{self.topic}{suffix}", is_version_2=is_version_2)
        producer.init()
        return producer

    def begin(self, producer: RawProducer | None = None) -> None:
        """What older clients do before they commit offsets."""
        if self.version < IMPLICIT_ADD_SINCE:
            answer = (producer or self.producer).add_offsets(self.group)
            assert answer.error_code == ErrorCode.NONE, ErrorCode(answer.error_code).name

    def commit(
        self,
        offsets: dict[int, int] | dict[str, dict[int, int]],
        producer: RawProducer | None = None,
        **fields: Any,
    ) -> Any:
        """Offsets by partition, or also by topic."""
        by_topic: Any = offsets
        if not any(isinstance(key, str) for key in offsets):
            by_topic = {self.topic: offsets}
        group = fields.pop("group_id", self.group)
        answer = (producer or self.producer).commit_offsets(
            group, by_topic, fields.pop("version", self.version), **fields
        )
        # Kafka puts those first that it refuses.
        return {
            topic.name: dict(
                sorted(
                    (one.partition_index, ErrorCode(one.error_code).name)
                    for one in topic.partitions
                )
            )
            for topic in sorted(answer.topics, key=lambda topic: topic.name)
        }

    def commit_plainly(self, offsets: dict[int, int]) -> None:
        answer = self.subject.ask(commit_request(self.group, {self.topic: offsets}), 9)
        assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE

    def end(self, *, is_commit: bool, producer: RawProducer | None = None) -> Any:
        """Returns when its marker is there."""
        answer = as_dict((producer or self.producer).end(is_commit=is_commit))
        answer.pop("producer_id")
        return answer

    def settle(self) -> None:
        deadline_s = time.monotonic() + TIMEOUT_S
        while "UNSTABLE_OFFSET_COMMIT" in str(self.fetched(is_stable=True)):
            assert time.monotonic() < deadline_s
            time.sleep(0.02)

    def fetched(self, *, is_stable: bool, is_all: bool = False) -> Any:
        asked = None if is_all else {self.topic: [0, 1]}
        request = fetch_request(9, self.group, asked, require_stable=is_stable)
        (group,) = self.subject.ask(request, 9).groups
        assert group.error_code == ErrorCode.NONE
        return {
            f"{topic.name}-{one.partition_index}": (
                ErrorCode(one.error_code).name,
                one.committed_offset,
                one.committed_leader_epoch,
                one.metadata,
            )
            for topic in group.topics
            for one in topic.partitions
        }

    def seen(self) -> Any:
        """What the group's offsets look like to everyone."""
        return [
            self.fetched(is_stable=is_stable, is_all=is_all)
            for is_stable in (False, True)
            for is_all in (False, True)
        ]

    def delete_offsets(self, *partitions: int) -> Any:
        asked = [OffsetDeleteRequestPartition(partition_index=one) for one in partitions]
        topic = OffsetDeleteRequestTopic(name=self.topic, partitions=asked)
        answer = self.subject.ask(OffsetDeleteRequest(group_id=self.group, topics=[topic]))
        return {
            one.partition_index: ErrorCode(one.error_code).name
            for one in answer.topics[0].partitions
        }

    def delete_group(self) -> Any:
        return as_dict(self.subject.ask(DeleteGroupsRequest(groups_names=[self.group]), 2))

    def described(self) -> Any:
        groups = self.subject.ask(ListGroupsRequest(), 5).groups
        listed = [as_dict(one) for one in groups if one.group_id == self.group]
        return [listed, as_dict(self.subject.ask(DescribeGroupsRequest(groups=[self.group]), 6))]

    def written(self) -> list[Any]:
        """The batches of the group in `__consumer_offsets`, and the markers of its producers,
        without times and producer ids, which are each broker's own. A sequence number they have
        not: Apache Kafka writes 0 into all of them, which nobody reads."""
        partition = abs_hash(self.group) % 50
        found: list[Any] = []
        mine: set[int] = set()
        for header, batch in self.subject.batches_of(CONSUMER_OFFSETS, partition):
            records = list(iter_records(batch))
            bodies = [_without_time(record.key, record.value) for record in records]
            is_mine = any(self.group.encode() in (record.key or b"") for record in records)
            if is_mine:
                mine.add(header.producer_id)
            if is_mine or (header.is_control and header.producer_id in mine):
                found.append(
                    {
                        "attributes": header.attributes,
                        "has producer": header.producer_id != -1,
                        "epoch": header.producer_epoch,
                        "records": bodies,
                    }
                )
        return found


def _without_time(key: bytes | None, value: bytes | None) -> Any:
    if key is not None and value is not None and key[:2] == b"\0\1" and len(key) > 4:
        decoded = decode_record(RECORD_TYPES, key, value)
        assert decoded is not None
        assert isinstance(decoded.key, OffsetCommitKey)
        assert isinstance(decoded.value, OffsetCommitValue)
        stamp = decoded.value.commit_timestamp.to_bytes(8, "big")
        assert value.count(stamp) == 1
        value = value.replace(stamp, bytes(8))
        if any(decoded.value.topic_id):
            value = value.replace(decoded.value.topic_id, b"topic id")
    return key, value


# -- the way of a transaction ------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("is_commit", [True, False])
def test_commit_and_end(both: Both, topic: str, version: int, is_commit: bool) -> None:
    def scenario(subject: Subject) -> Any:
        stage = Stage(subject, topic, version)
        stage.commit_plainly({0: 1})
        stage.begin()
        seen = [
            stage.commit({0: 10, 1: 20}, metadata="why", leader_epoch=3),
            stage.commit({0: 11}, metadata=None),
            stage.seen(),
            stage.described(),
            stage.end(is_commit=is_commit),
        ]
        stage.settle()
        return [*seen, stage.seen(), stage.described()]

    assert_alike(both, scenario)


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_written(both: Both, topic: str, version: int) -> None:
    """Kafka's coordinator could take over from ours, and ours from Kafka's."""

    def scenario(subject: Subject) -> Any:
        stage = Stage(subject, topic, version)
        for is_commit in (True, False, True):
            stage.begin()
            stage.commit({0: 10, 1: 20}, metadata="why", leader_epoch=3)
            stage.commit({0: 11}, metadata=None)
            stage.end(is_commit=is_commit)
            stage.settle()
        stage.begin()
        stage.commit({0: 12})
        stage.commit_plainly({0: 13})
        stage.delete_offsets(0)
        stage.end(is_commit=True)
        stage.settle()
        # The marker is not waited for: nothing was unstable any more.
        return [batch for batch in stage.written() if batch["attributes"] != 0x30]

    assert_alike(both, scenario)


@pytest.mark.parametrize("version", [4, 5])
def test_the_markers_that_are_written(both: Both, topic: str, version: int) -> None:
    def scenario(subject: Subject) -> Any:
        stage = Stage(subject, topic, version)
        for is_commit in (True, False):
            stage.begin()
            stage.commit({0: 10})
            stage.end(is_commit=is_commit)
            stage.settle()
        return stage.written()

    seen = assert_alike(both, scenario)
    assert [batch["attributes"] for batch in seen] == [0x10, 0x30, 0x10, 0x30]


def test_plain_commits_in_between(both: Both, topic: str) -> None:
    def scenario(subject: Subject) -> Any:
        stage = Stage(subject, topic)
        stage.commit({0: 10, 1: 20})
        stage.commit_plainly({0: 5})
        seen = [stage.seen()]
        stage.end(is_commit=True)
        stage.settle()
        seen.append(stage.seen())
        stage.commit({0: 11})
        stage.commit_plainly({0: 6})
        stage.commit({0: 12})
        stage.end(is_commit=True)
        stage.settle()
        return [*seen, stage.seen()]

    assert_alike(both, scenario)


@pytest.mark.parametrize("ends", ["first", "second"])
def test_two_transactions_with_the_same_partition(both: Both, topic: str, ends: str) -> None:
    def scenario(subject: Subject) -> Any:
        stage = Stage(subject, topic)
        first, second = stage.producer, stage.make_producer("-2")
        seen = [stage.commit({0: 1}, first), stage.commit({0: 2}, second)]
        order = (first, second) if ends == "first" else (second, first)
        stage.end(is_commit=True, producer=order[0])
        seen.append(stage.fetched(is_stable=True))
        stage.end(is_commit=True, producer=order[1])
        stage.settle()
        return [*seen, stage.seen()]

    assert_alike(both, scenario)


@pytest.mark.parametrize("version", VERSIONS)
def test_without_being_added(both: Both, topic: str, version: int) -> None:
    def scenario(subject: Subject) -> Any:
        stage = Stage(subject, topic, version)
        seen = [stage.commit({0: 10}), stage.seen()]
        stage.begin()
        seen.append(stage.commit({0: 10}))
        stage.end(is_commit=False)
        stage.settle()
        # Of a transaction that has ended.
        return [*seen, stage.commit({0: 11}), stage.seen()]

    assert_alike(both, scenario)


@pytest.mark.parametrize("version", VERSIONS)
def test_another_producer(both: Both, topic: str, version: int) -> None:
    def scenario(subject: Subject) -> Any:
        stage = Stage(subject, topic, version)
        stage.begin()
        epoch = stage.producer.producer_epoch
        wrong: list[dict[str, Any]] = [
            {"producer_epoch": epoch + 1},
            {"producer_id": 10**9},
            {"transactional_id": topic + "-unknown"},
            {"transactional_id": ""},
            {"producer_epoch": -1},
            {"producer_id": -1, "producer_epoch": -1},
        ]
        return [stage.commit({0: 10}, **fields) for fields in wrong]

    assert_alike(both, scenario)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_epoch_that_is_fenced(both: Both, topic: str, version: int) -> None:
    def scenario(subject: Subject) -> Any:
        stage = Stage(subject, topic, version)
        stage.begin()
        stage.commit({0: 10})
        stage.make_producer()
        seen = [stage.commit({0: 11}), stage.commit({0: 11}, producer_epoch=100)]
        stage.settle()
        return [*seen, stage.seen()]

    assert_alike(both, scenario)


# -- what the group says -----------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_partitions_that_are_not_there(both: Both, topic: str, version: int) -> None:
    def scenario(subject: Subject) -> Any:
        stage = Stage(subject, topic, version)
        stage.begin()
        return [
            stage.commit({topic: {0: 1, 2: 2, -1: 3}, "missing": {0: 1}}),
            stage.commit({topic: {5: 1}, "missing": {0: 1}}),
            stage.commit({}),
            stage.commit({"missing": {0: 1}}, group_id=""),
            stage.commit({0: 1}, group_id=""),
            stage.commit({0: -1}),
        ]

    assert_alike(both, scenario)


@pytest.mark.parametrize("metadata", ["x" * 4096, "x" * 4097, "ä" * 4096, "\U0001f600" * 2049])
def test_metadata(both: Both, topic: str, metadata: str) -> None:
    def scenario(subject: Subject) -> Any:
        stage = Stage(subject, topic)
        seen = [stage.commit({0: 1, 1: 2}, metadata=metadata)]
        stage.end(is_commit=True)
        stage.settle()
        return [*seen, stage.seen()]

    assert_alike(both, scenario)


@pytest.mark.parametrize("version", range(MEMBERS_SINCE, VERSIONS[-1] + 1))
def test_members_of_a_classic_group(both: Both, topic: str, version: int) -> None:
    def scenario(subject: Subject) -> Any:
        stage = Stage(subject, topic, version)
        stage.begin()

        def strangers() -> list[Any]:
            return [
                stage.commit({0: 1}, generation_id=generation, member_id=member_id)
                for member_id in ("", "m", *known)
                for generation in (-1, 0, 1, 2)
            ]

        known: list[str] = []
        seen = strangers()
        member = RawMember(subject.bootstrap, stage.group)
        member.join(topic)
        known.append(member.member_id)
        seen += strangers()  # It has not synced.
        member.sync({member.member_id: b"all"})
        seen += strangers()
        member.leave()
        member.close()
        return [*seen, *strangers()]

    assert_alike(both, scenario)


def test_static_members(both: Both, topic: str) -> None:
    def scenario(subject: Subject) -> Any:
        stage = Stage(subject, topic)
        member = RawMember(subject.bootstrap, stage.group, "one")
        member.join(topic)
        member.sync({member.member_id: b"all"})
        seen = [
            stage.commit(
                {0: 1}, generation_id=generation, member_id=member_id, group_instance_id=instance_id
            )
            for generation in (-1, 1)
            for member_id in ("", "m", member.member_id)
            for instance_id in (None, "one", "two")
        ]
        member.leave()
        member.close()
        return seen

    assert_alike(both, scenario)


@pytest.mark.parametrize("version", range(MEMBERS_SINCE, VERSIONS[-1] + 1))
def test_members_of_a_consumer_group(both: Both, topic: str, version: int) -> None:
    def scenario(subject: Subject) -> Any:
        stage = Stage(subject, topic, version)
        stage.begin()
        member = f"member-of-{topic}"
        join = ConsumerGroupHeartbeatRequest(
            group_id=stage.group,
            member_id=member,
            member_epoch=0,
            topic_partitions=[],
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=[topic],
        )
        answer = subject.ask(join, 1)
        assert answer.error_code == ErrorCode.NONE
        seen = [
            stage.commit({0: 1}, generation_id=generation, member_id=member_id)
            for member_id in ("", "m", member)
            for generation in range(-1, answer.member_epoch + 2)
        ]
        leave = ConsumerGroupHeartbeatRequest(
            group_id=stage.group, member_id=member, member_epoch=-1
        )
        subject.ask(leave, 1)
        seen.append(stage.commit({0: 1}))
        seen.append(stage.commit({0: 1}, generation_id=1, member_id=member))
        return [answer.member_epoch, *seen]

    assert_alike(both, scenario)


# -- what waits, and is deleted ----------------------------------------------------------------


def test_a_group_that_has_nothing_but_what_waits(both: Both, topic: str) -> None:
    def scenario(subject: Subject) -> Any:
        stage = Stage(subject, topic)
        seen = [stage.described()]
        stage.commit({0: 10})
        seen.append(stage.described())
        stage.end(is_commit=False)
        stage.settle()
        seen.append(stage.described())
        seen.append(stage.delete_group())
        return [*seen, stage.described()]

    assert_alike(both, scenario)


@pytest.mark.parametrize("is_commit", [True, False])
def test_deleting_offsets_that_wait(both: Both, topic: str, is_commit: bool) -> None:
    def scenario(subject: Subject) -> Any:
        stage = Stage(subject, topic)
        stage.commit_plainly({0: 1})
        stage.commit({0: 10, 1: 20})
        seen = [stage.delete_offsets(0, 1, 2), stage.seen()]
        stage.commit({1: 21})
        seen.append(stage.seen())
        stage.end(is_commit=is_commit)
        stage.settle()
        return [*seen, stage.seen(), stage.described()]

    assert_alike(both, scenario)


@pytest.mark.parametrize("is_commit", [True, False])
def test_deleting_a_group_whose_offsets_wait(both: Both, topic: str, is_commit: bool) -> None:
    def scenario(subject: Subject) -> Any:
        stage = Stage(subject, topic)
        stage.commit_plainly({0: 1})
        stage.commit({0: 10, 1: 20})
        seen = [stage.delete_group(), stage.seen(), stage.described()]
        stage.end(is_commit=is_commit)
        time.sleep(0.5)  # Nothing waits any more that would show when the marker is there.
        return [*seen, stage.seen(), stage.described()]

    assert_alike(both, scenario)


def test_a_topic_that_is_deleted_while_its_offsets_wait(both: Both, topic: str) -> None:
    def scenario(subject: Subject) -> Any:
        stage = Stage(subject, topic)
        stage.commit({0: 10})
        request = DeleteTopicsRequest(topic_names=[topic], timeout_ms=10_000)
        assert subject.ask(request, 5).responses[0].error_code == ErrorCode.NONE
        stage.settle()
        stage.end(is_commit=True)
        time.sleep(0.5)
        return [stage.seen(), stage.described()]

    assert_alike(both, scenario)
