"""Groups and their offsets, byte by byte beside Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from ottla.coordinators.groups.records import RECORD_TYPES
from ottla.coordinators.record import decode_record
from ottla.kernel.errors import ErrorCode
from ottla.kernel.java import abs_hash
from ottla.records.record import iter_records
from ottla.wire.messages.delete_groups import DeleteGroupsRequest
from ottla.wire.messages.delete_topics import DeleteTopicsRequest
from ottla.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.wire.messages.describe_groups import DescribeGroupsRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequest
from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.wire.messages.list_groups import ListGroupsRequest
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.messages.offset_commit import OffsetCommitRequest
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from ottla.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from ottla.wire.messages.sync_group import SyncGroupRequest
from tests.support.raw_client import as_dict
from tests.support.raw_group import (
    RawMember,
    commit_request,
    fetch_request,
    wait_for_coordinator,
)
from tests.support.side_by_side import Both, Subject, a_batch, assert_alike

MISSING_ID = b"\x07" * 16


def begin(subject: Subject, topic: str, partition_count: int = 2) -> str:
    """A topic, and a group (of the same name) whose coordinator is ready."""
    subject.create(topic, partition_count)
    wait_for_coordinator(subject.ask, topic)
    return topic


def commit(subject: Subject, group: str, version: int = 8, **options: Any) -> Any:
    offsets = options.pop("offsets", {group: {0: 10, 1: 20}})
    request = commit_request(group, offsets, topic_ids=ids(subject), **options)
    return in_any_order(subject.ask(request, version))


def fetch(
    subject: Subject, group: str, topics: dict[str, list[int]] | None, version: int = 8, **more: Any
) -> Any:
    request = fetch_request(version, group, topics, topic_ids=ids(subject), **more)
    return in_any_order(subject.ask(request, version))


def ids(subject: Subject) -> Any:
    return {"missing": MISSING_ID, **subject.topic_ids}


def in_any_order(value: Any) -> Any:
    """Kafka gathers topics and partitions in hash maps, and puts those that it refuses first."""
    value = as_dict(value)
    if isinstance(value, dict):
        return {name: in_any_order(one) for name, one in value.items()}
    if isinstance(value, list):
        found = [in_any_order(one) for one in value]
        if found and isinstance(found[0], dict):
            # By what is the same on both: names, not ids.
            found.sort(key=lambda one: repr({**one, "topic_id": None}))
        return found
    return value


def describe(subject: Subject, *groups: str, version: int = 6, **options: Any) -> Any:
    request = DescribeGroupsRequest(groups=list(groups), **options)
    return in_any_order(subject.ask(request, version))


def delete_offsets(subject: Subject, group: str, topics: dict[str, list[int]]) -> Any:
    request = OffsetDeleteRequest(
        group_id=group,
        topics=[
            OffsetDeleteRequestTopic(
                name=topic,
                partitions=[OffsetDeleteRequestPartition(partition_index=one) for one in indexes],
            )
            for topic, indexes in topics.items()
        ],
    )
    return in_any_order(subject.ask(request))


def delete_groups(subject: Subject, *groups: str, version: int = 2) -> Any:
    return in_any_order(subject.ask(DeleteGroupsRequest(groups_names=list(groups)), version))


@contextmanager
def stable_member(subject: Subject, group: str, *topics: str) -> Iterator[RawMember]:
    member = RawMember(subject.bootstrap, group)
    member.join(*(topics or (group,)))
    assert member.sync({member.member_id: b"all"}).error_code == ErrorCode.NONE
    yield member
    member.leave()
    member.close()


def anonymous(answer: Any, *members: RawMember) -> Any:
    """With names in place of member ids."""
    names = {member.member_id: f"member {n}" for n, member in enumerate(members)}

    def named(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: named(one) for name, one in value.items()}
        if isinstance(value, list):
            return [named(one) for one in value]
        return names.get(value, value) if isinstance(value, str) else value

    return named(as_dict(answer))


# -- committing and fetching -----------------------------------------------------------------


@pytest.mark.parametrize("version", OffsetCommitRequest.VERSIONS)
def test_commit_without_members(both: Both, topic: str, version: int) -> None:
    def scenario(subject: Subject) -> Any:
        group = begin(subject, topic)
        offsets = {topic: {0: 10, 1: 20, 2: 30, -1: 40}, "missing": {0: 1}}
        return [
            commit(subject, group, version, offsets=offsets, metadata="why"),
            commit(subject, group, version, offsets={topic: {5: 1}, "missing": {0: 1}}),
            commit(subject, group, version, offsets={}),
            fetch(subject, group, None),
            commit(subject, group, version, offsets={topic: {0: 3}}, metadata=None),
            commit(subject, group, version, offsets={topic: {1: -1}}),
            fetch(subject, group, None),
        ]

    assert_alike(both, scenario)


@pytest.mark.parametrize("version", OffsetCommitRequest.VERSIONS)
def test_commit_by_strangers(both: Both, topic: str, version: int) -> None:
    def scenario(subject: Subject) -> Any:
        group = begin(subject, topic)
        seen = [
            commit(subject, group, version, generation_id_or_member_epoch=generation, **more)
            for generation in (0, 1, 7)
            for more in ({}, {"member_id": "m"})
        ]
        seen.append(commit(subject, group, version, member_id="m"))
        with stable_member(subject, group) as member:
            for member_id in ("", "m", member.member_id):
                for generation in (-1, 0, 1, 2):
                    seen.append(
                        commit(
                            subject,
                            group,
                            version,
                            member_id=member_id,
                            generation_id_or_member_epoch=generation,
                        )
                    )
        seen.append(commit(subject, group, version, generation_id_or_member_epoch=1))
        seen.append(commit(subject, group, version, member_id="m"))
        seen.append(commit(subject, group, version))
        return seen

    assert_alike(both, scenario)


def test_commit_while_the_group_rebalances(both: Both, topic: str) -> None:
    def scenario(subject: Subject) -> Any:
        group = begin(subject, topic)
        member = RawMember(subject.bootstrap, group)
        member.join(topic)
        fields: dict[str, Any] = {"member_id": member.member_id, "generation_id_or_member_epoch": 1}
        seen = [commit(subject, group, **fields)]  # It has not synced.
        member.sync({member.member_id: b"all"})
        other = RawMember(subject.bootstrap, group)
        other.send_join(topic)
        other.joined()
        other.send_join(topic)
        while member.heartbeat().error_code == ErrorCode.NONE:
            pass
        seen.append(commit(subject, group, **fields))
        member.leave()
        member.close()
        other.close()
        return seen

    assert_alike(both, scenario)


def test_commit_by_static_members(both: Both, topic: str) -> None:
    def scenario(subject: Subject) -> Any:
        group = begin(subject, topic)
        member = RawMember(subject.bootstrap, group, "one")
        member.join(topic)
        member.sync({member.member_id: b"all"})
        seen = [
            commit(
                subject,
                group,
                generation_id_or_member_epoch=1,
                member_id=member_id,
                group_instance_id=instance_id,
            )
            for member_id in ("", "m", member.member_id)
            for instance_id in (None, "one", "two")
        ]
        member.leave()
        member.close()
        return seen

    assert_alike(both, scenario)


@pytest.mark.parametrize(
    "metadata", ["", "x" * 4096, "x" * 4097, "ä" * 4096, "ä" * 4097, "\U0001f600" * 2049]
)
def test_metadata_of_an_offset(both: Both, topic: str, metadata: str) -> None:
    def scenario(subject: Subject) -> Any:
        group = begin(subject, topic)
        return [
            commit(subject, group, metadata=metadata),
            fetch(subject, group, {topic: [0, 1]}),
        ]

    assert_alike(both, scenario)


def test_a_commit_that_does_not_fit_into_a_batch(both: Both, topic: str) -> None:
    """It is refused as a whole."""

    def scenario(subject: Subject) -> Any:
        group = begin(subject, topic)
        request = commit_request(group, {topic: {0: 7}}, metadata="\u20ac" * 4096)
        # As many records: of a partition that is named again the last one counts.
        request.topics[0].partitions *= 100
        answer = subject.ask(request, 8)
        codes = {ErrorCode(one.error_code) for one in answer.topics[0].partitions}
        (found,) = subject.ask(fetch_request(7, group, {topic: [0]}), 7).topics[0].partitions
        return {"codes": sorted(codes), "committed": found.committed_offset}

    assert assert_alike(both, scenario) == {
        "codes": [ErrorCode.UNKNOWN_SERVER_ERROR],
        "committed": -1,
    }


@pytest.mark.parametrize("version", OffsetFetchRequest.VERSIONS)
def test_fetch(both: Both, topic: str, version: int) -> None:
    def scenario(subject: Subject) -> Any:
        group = begin(subject, topic)
        wanted = {topic: [0, 1, 2, -1], "missing": [0, 1]}
        seen = [fetch(subject, group, wanted, version)]
        commit(subject, group, offsets={topic: {1: 17}}, metadata="why", leader_epoch=3)
        seen.append(fetch(subject, group, wanted, version))
        seen.append(fetch(subject, group, {}, version))
        seen.append(fetch(subject, group, {topic: []}, version))
        if version >= 2:
            seen.append(fetch(subject, group, None, version))
            seen.append(fetch(subject, group + "-missing", None, version))
        if version >= 7:
            seen.append(fetch(subject, group, wanted, version, require_stable=True))
            seen.append(fetch(subject, group, None, version, require_stable=True))
        return seen

    assert_alike(both, scenario)


@pytest.mark.parametrize("version", range(8, 11))
def test_fetch_of_several_groups(both: Both, topic: str, version: int) -> None:
    def scenario(subject: Subject) -> Any:
        group = begin(subject, topic)
        wait_for_coordinator(subject.ask, group + "-2")
        commit(subject, group, offsets={topic: {0: 1}})
        commit(subject, group + "-2", offsets={topic: {0: 2}})
        # Each once: of one that is named twice Kafka answers twice, and Ottla once, so that a short
        # question cannot have an endless answer.
        groups = [group, group + "-2", group + "-missing"]
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=one, topics=None) for one in groups]
        )
        return as_dict(subject.ask(request, version))

    assert_alike(both, scenario)


@pytest.mark.parametrize("version", [9, 10])
def test_fetch_by_members(both: Both, topic: str, version: int) -> None:
    """They are those of the consumer protocol; of a classic group nobody is asked."""

    def scenario(subject: Subject) -> Any:
        group = begin(subject, topic)
        seen = []
        for name in (group, group + "-missing"):
            for member_id, epoch in ((None, -1), ("", 0), ("m", 1), ("m", -1), (None, 3)):
                asked = OffsetFetchRequestGroup(
                    group_id=name, member_id=member_id, member_epoch=epoch, topics=None
                )
                seen.append(as_dict(subject.ask(OffsetFetchRequest(groups=[asked]), version)))
            commit(subject, group)
        return in_any_order(seen)

    assert_alike(both, scenario)


def test_ids_of_groups(both: Both, topic: str) -> None:
    """Of all lengths, and none."""

    def scenario(subject: Subject) -> Any:
        begin(subject, topic)
        seen = []
        for group in ("g", "with space", "ä/ö", "x" * 255, "x" * 20_000):
            wait_for_coordinator(subject.ask, group)
            seen.append(commit(subject, group, offsets={topic: {0: 7}}))
            seen.append(fetch(subject, group, {topic: [0]}))
            seen.append(describe(subject, group))
            seen.append(delete_groups(subject, group))
        return seen

    assert_alike(both, scenario)


def test_the_empty_group_id(both: Both, topic: str) -> None:
    def scenario(subject: Subject) -> Any:
        begin(subject, topic)
        member = RawMember(subject.bootstrap, "")
        member.protocol_name = "range"
        leave = LeaveGroupRequest(group_id="", members=[MemberIdentity(member_id="m")])
        seen = [
            commit(subject, "", offsets={topic: {0: 7}}),
            commit(subject, "", offsets={topic: {0: 7}}, generation_id_or_member_epoch=1),
            fetch(subject, "", {topic: [0]}),
            fetch(subject, "", None),
            describe(subject, ""),
            describe(subject, "", version=5),
            as_dict(member.join(topic)),
            as_dict(member.sync()),
            as_dict(member.heartbeat()),
            as_dict(subject.ask(leave)),
            delete_offsets(subject, "", {topic: [0]}),
            delete_groups(subject, ""),
            delete_groups(subject, ""),
            fetch(subject, "", {topic: [0]}),
            as_dict(subject.ask(FindCoordinatorRequest(coordinator_keys=[""]))),
        ]
        member.close()
        return seen

    assert_alike(both, scenario)


# -- requests to groups that are not there ----------------------------------------------------


@pytest.mark.parametrize("version", JoinGroupRequest.VERSIONS)
def test_join_refused(both: Both, topic: str, version: int) -> None:
    def scenario(subject: Subject) -> Any:
        group = begin(subject, topic)
        member = RawMember(subject.bootstrap, group)
        seen = []
        refused: list[dict[str, Any]] = [
            {"session_timeout_ms": 1},
            {"session_timeout_ms": 2_000_000},
            {"member_id": "unknown"},
            {"protocols": []},
            {"protocol_type": ""},
        ]
        for fields in refused:
            member.member_id = str(fields.pop("member_id", ""))
            member.send_join(topic, version=version, **fields)
            answer = member.joined(version)
            seen.append(anonymous(answer, member))
        member.close()
        return seen

    assert_alike(both, scenario)


@pytest.mark.parametrize("version", SyncGroupRequest.VERSIONS)
def test_sync_by_strangers(both: Both, topic: str, version: int) -> None:
    def scenario(subject: Subject) -> Any:
        group = begin(subject, topic)
        stranger = RawMember(subject.bootstrap, group)
        stranger.member_id, stranger.generation_id, stranger.protocol_name = "m", 1, "range"
        seen = [as_dict(stranger.sync(version=version))]
        commit(subject, group)
        seen.append(as_dict(stranger.sync(version=version)))
        with stable_member(subject, group) as member:
            seen.append(as_dict(stranger.sync(version=version)))
            seen.append(as_dict(member.sync(version=version)))
            member.protocol_name = "other"
            seen.append(as_dict(member.sync(version=version)))
            member.protocol_name = "range"
            member.generation_id = 5
            seen.append(as_dict(member.sync(version=version)))
        stranger.close()
        return seen

    assert_alike(both, scenario)


@pytest.mark.parametrize("version", HeartbeatRequest.VERSIONS)
def test_heartbeat_by_strangers(both: Both, topic: str, version: int) -> None:
    def scenario(subject: Subject) -> Any:
        group = begin(subject, topic)
        stranger = RawMember(subject.bootstrap, group)
        seen = []
        for member_id, generation in (("", -1), ("m", 1)):
            stranger.member_id, stranger.generation_id = member_id, generation
            seen.append(as_dict(stranger.heartbeat(version)))
            commit(subject, group)
            seen.append(as_dict(stranger.heartbeat(version)))
        with stable_member(subject, group) as member:
            seen.append(as_dict(stranger.heartbeat(version)))
            seen.append(as_dict(member.heartbeat(version)))
            member.generation_id = 0
            seen.append(as_dict(member.heartbeat(version)))
        stranger.close()
        return seen

    assert_alike(both, scenario)


@pytest.mark.parametrize("version", LeaveGroupRequest.VERSIONS)
def test_leave_by_strangers(both: Both, topic: str, version: int) -> None:
    def scenario(subject: Subject) -> Any:
        group = begin(subject, topic)
        stranger = RawMember(subject.bootstrap, group)
        seen = []
        for member_id in ("", "m"):
            stranger.member_id = member_id
            seen.append(as_dict(stranger.leave(version)))
        commit(subject, group)
        seen.append(as_dict(stranger.leave(version)))
        with stable_member(subject, group) as member:
            seen.append(as_dict(stranger.leave(version)))
            seen.append(anonymous(member.leave(version), member))
            seen.append(anonymous(member.leave(version), member))
        stranger.close()
        return seen

    assert_alike(both, scenario)


# -- a group's life ----------------------------------------------------------------------------


def test_a_group_of_two(both: Both, topic: str) -> None:
    def scenario(subject: Subject) -> Any:
        group = begin(subject, topic)
        one, two = (RawMember(subject.bootstrap, group) for _ in range(2))
        seen = []

        def saw(answer: Any) -> None:
            seen.append(in_any_order(anonymous(answer, one, two)))

        saw(one.join(topic))
        saw(describe(subject, group))
        saw(one.sync({one.member_id: b"all"}))
        saw(describe(subject, group, include_authorized_operations=True))
        two.send_join(topic)
        saw(two.joined())
        two.send_join(topic)
        while one.heartbeat().error_code == ErrorCode.NONE:
            pass
        saw(one.heartbeat())
        saw(describe(subject, group))
        one.send_join(topic)
        saw(one.joined())
        saw(two.joined())
        saw(one.sync({one.member_id: b"half", two.member_id: b"rest"}))
        saw(two.sync())
        saw(two.heartbeat())
        saw(describe(subject, group))
        saw(one.leave())
        saw(two.heartbeat())
        saw(two.leave())
        saw(describe(subject, group))
        saw(delete_groups(subject, group))
        saw(describe(subject, group))
        for member in (one, two):
            member.close()
        return seen

    assert_alike(both, scenario)


@pytest.mark.parametrize("version", DescribeGroupsRequest.VERSIONS)
def test_describe(both: Both, topic: str, version: int) -> None:
    def scenario(subject: Subject) -> Any:
        group = begin(subject, topic)
        seen = [describe(subject, group, group + "-other", version=version)]
        commit(subject, group)
        seen.append(describe(subject, group, version=version))
        with stable_member(subject, group) as member:
            found = describe(
                subject, group, version=version, include_authorized_operations=version >= 3
            )
            seen.append(anonymous(found, member))
        # Each once, as above.
        seen.append(describe(subject, group, version=version))
        seen.append(describe(subject, version=version))
        if version >= 3:
            seen.append(
                describe(
                    subject, group + "-missing", version=version, include_authorized_operations=True
                )
            )
        return seen

    assert_alike(both, scenario)


@pytest.mark.parametrize("version", ListGroupsRequest.VERSIONS)
def test_list(both: Both, topic: str, version: int) -> None:
    def listed(subject: Subject, **filters: list[str]) -> Any:
        """Of this test: the brokers have groups of others too."""
        answer = as_dict(subject.ask(ListGroupsRequest(**filters), version))
        answer["groups"] = sorted(
            (one for one in answer["groups"] if one["group_id"].startswith(topic)),
            key=lambda one: str(one["group_id"]),
        )
        return answer

    def scenario(subject: Subject) -> Any:
        group = begin(subject, topic)
        seen = [listed(subject)]
        commit(subject, group)
        seen.append(listed(subject))
        wait_for_coordinator(subject.ask, group + "-2")
        with stable_member(subject, group + "-2", topic):
            seen.append(listed(subject))
            if version >= 4:
                for states in (
                    ["Stable"],
                    ["stable"],
                    ["EMPTY", "Stable"],
                    ["Unknown"],
                    ["Dead"],
                    [""],
                    ["PreparingRebalance"],
                ):
                    seen.append(listed(subject, states_filter=states))
            if version >= 5:
                for types in (["classic"], ["Classic"], ["consumer"], ["other"], ["classic", "x"]):
                    seen.append(listed(subject, types_filter=types))
                seen.append(listed(subject, types_filter=["classic"], states_filter=["Empty"]))
        seen.append(listed(subject))
        delete_groups(subject, group, group + "-2")
        seen.append(listed(subject))
        return seen

    assert_alike(both, scenario)


@pytest.mark.parametrize("version", DeleteGroupsRequest.VERSIONS)
def test_delete_groups(both: Both, topic: str, version: int) -> None:
    def scenario(subject: Subject) -> Any:
        group = begin(subject, topic)
        seen = [delete_groups(subject, group, group, group + "-missing", version=version)]
        commit(subject, group)
        seen.append(delete_groups(subject, group, group + "-missing", version=version))
        seen.append(fetch(subject, group, {topic: [0, 1]}))
        with stable_member(subject, group):
            commit(subject, group + "-2", offsets={topic: {0: 1}})
            seen.append(delete_groups(subject, group, group + "-2", version=version))
        seen.append(delete_groups(subject, group, version=version))
        seen.append(delete_groups(subject, version=version))
        return seen

    assert_alike(both, scenario)


def test_delete_offsets(both: Both, topic: str) -> None:
    def scenario(subject: Subject) -> Any:
        group = begin(subject, topic)
        other = topic + "-other"
        subject.create(other)
        everything = {topic: [0, 1, 2, -1], "missing": [0], other: [0]}
        seen = [delete_offsets(subject, group, everything)]
        commit(subject, group)
        commit(subject, group, offsets={other: {0: 3}})
        seen.append(delete_offsets(subject, group, {topic: [0, 5], "missing": [0]}))
        seen.append(fetch(subject, group, {topic: [0, 1], other: [0]}))
        with stable_member(subject, group):
            seen.append(delete_offsets(subject, group, everything))
            seen.append(fetch(subject, group, {topic: [0, 1], other: [0]}))
        seen.append(delete_offsets(subject, group, everything))
        seen.append(fetch(subject, group, {topic: [0, 1], other: [0]}))
        seen.append(delete_offsets(subject, group, {}))
        seen.append(delete_offsets(subject, group, {"missing": [0]}))
        return seen

    assert_alike(both, scenario)


def test_delete_offsets_of_a_group_that_is_no_consumer(both: Both, topic: str) -> None:
    """Nobody knows what such members read, so nothing is deleted while there are any."""

    def scenario(subject: Subject) -> Any:
        group = begin(subject, topic)
        commit(subject, group)
        member = RawMember(subject.bootstrap, group)
        member.join(topic, protocol_type="connect")
        seen = [delete_offsets(subject, group, {topic: [0]})]
        member.leave()
        member.close()
        seen.append(delete_offsets(subject, group, {topic: [0]}))
        seen.append(fetch(subject, group, {topic: [0, 1]}))
        return seen

    assert_alike(both, scenario)


def test_a_group_without_offsets_left(both: Both, topic: str) -> None:
    def scenario(subject: Subject) -> Any:
        group = begin(subject, topic)
        commit(subject, group)
        return [
            delete_offsets(subject, group, {topic: [0, 1]}),
            describe(subject, group),
            delete_offsets(subject, group, {topic: [0, 1]}),
            delete_groups(subject, group),
            delete_groups(subject, group),
        ]

    assert_alike(both, scenario)


def test_offsets_of_a_deleted_topic(both: Both, topic: str) -> None:
    def scenario(subject: Subject) -> Any:
        group = begin(subject, topic)
        subject.create(topic + "-other")
        commit(subject, group, offsets={topic: {0: 1, 1: 2}, topic + "-other": {0: 3}})
        answer = subject.ask(DeleteTopicsRequest(topic_names=[topic], timeout_ms=10_000), 5)
        assert answer.responses[0].error_code == ErrorCode.NONE
        seen = []
        while (
            fetch(subject, group, {topic: [0]}, 7)["topics"][0]["partitions"][0]["committed_offset"]
            != -1
        ):
            pass
        seen.append(fetch(subject, group, {topic: [0, 1], topic + "-other": [0]}, 7))
        seen.append(fetch(subject, group, None))
        return seen

    assert_alike(both, scenario)


# -- the topic behind it -----------------------------------------------------------------------


def written_by(subject: Subject, group: str) -> list[Any]:
    """The records of the group in `__consumer_offsets`, without their times."""
    partition = abs_hash(group) % 50
    found = []
    for header, batch in subject.batches_of("__consumer_offsets", partition):
        if header.is_control:  # A marker of another test's transaction.
            continue
        for record in iter_records(batch):
            decoded = decode_record(RECORD_TYPES, record.key or b"", record.value)
            assert decoded is not None
            key = as_dict(decoded.key)
            # Groups of other tests share the partition, and their keys call the group
            # "group_id" where the group speaks the consumer protocol.
            if group not in (key.get("group"), key.get("group_id")):
                continue
            value = None if decoded.value is None else as_dict(decoded.value)
            for name in ("commit_timestamp", "expire_timestamp", "current_state_timestamp"):
                if value is not None and name in value:
                    value[name] = value[name] > 0
            found.append([type(decoded.key).__name__, key, decoded.value_version, value])
    return found


def test_what_is_written(both: Both, topic: str) -> None:
    """Kafka's coordinator could take over from ours, and ours from Kafka's."""

    def scenario(subject: Subject) -> Any:
        group = begin(subject, topic)
        for version in OffsetCommitRequest.VERSIONS:
            commit(subject, group, version, offsets={topic: {0: version}}, metadata="why")
        commit(subject, group, 4, retention_time_ms=100_000)
        commit(subject, group, 8, leader_epoch=3, offsets={topic: {0: 4}}, metadata=None)
        delete_offsets(subject, group, {topic: [0]})
        delete_groups(subject, group)
        with stable_member(subject, group) as member:
            pass
        delete_groups(subject, group)
        return dict(enumerate(anonymous(written_by(subject, group), member)))

    assert_alike(both, scenario)


def test_the_topic_of_offsets(both: Both, topic: str) -> None:
    def scenario(subject: Subject) -> Any:
        begin(subject, topic)
        name = "__consumer_offsets"
        found = subject.ask(MetadataRequest(topics=[MetadataRequestTopic(name=name)]), 12)
        asked = DescribeConfigsResource(
            resource_type=2,
            resource_name=name,
            configuration_keys=["cleanup.policy", "compression.type", "segment.bytes"],
        )
        configs = subject.ask(DescribeConfigsRequest(resources=[asked])).results[0].configs
        return [
            as_dict(found.topics[0]),
            {one.name: (one.value, one.config_source) for one in configs},
        ]

    assert_alike(both, scenario)


@pytest.mark.parametrize("acks", [1, -1])
def test_clients_do_not_write_to_the_topic_of_offsets(both: Both, topic: str, acks: int) -> None:
    def scenario(subject: Subject) -> Any:
        begin(subject, topic)
        return as_dict(subject.produce("__consumer_offsets", a_batch(b"v"), acks=acks))

    assert_alike(both, scenario)


@pytest.mark.parametrize("version", FindCoordinatorRequest.VERSIONS)
def test_find_coordinator(both: Both, topic: str, version: int) -> None:
    def scenario(subject: Subject) -> Any:
        group = begin(subject, topic)
        seen = []
        for key_type in (0, 1, 3, -1) if version >= 1 else (0,):
            if version >= 4:
                request = FindCoordinatorRequest(coordinator_keys=[group, "x"], key_type=key_type)
            else:
                request = FindCoordinatorRequest(key=group, key_type=key_type)
            if key_type == 1:
                # The topic of transactions is made in the background.
                continue
            seen.append(as_dict(subject.ask(request, version)))
        return seen

    assert_alike(both, scenario)
