"""Who may commit within a transaction. Plain commits are in test_classic.py, test_consumer.py and
tests/unit/server/handlers/test_offset_commit.py."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.coordinators.groups.consumer.protocol import ConsumerProtocol
from ottla.coordinators.groups.offset_commits import OffsetCommits
from ottla.coordinators.groups.offsets import Offsets
from ottla.coordinators.groups.records import OffsetCommitKey, OffsetCommitValue
from ottla.coordinators.record import CoordinatorRecord
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import NO_TOPIC_ID
from ottla.kernel.slices import at_once
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from tests.support import classic_groups
from tests.support.classic_groups import ClassicCoordinator
from tests.support.consumer_groups import GROUP, ConsumerCoordinator, two_members

SETTINGS = {"offset.metadata.max.bytes": "10"}


def commits_of(coordinator: ClassicCoordinator | ConsumerCoordinator) -> OffsetCommits:
    context = coordinator.context
    offsets = Offsets(context)
    if isinstance(coordinator, ClassicCoordinator):
        return OffsetCommits(context, coordinator.protocol, ConsumerProtocol(context), offsets)
    return OffsetCommits(context, coordinator.classic, coordinator.protocol, offsets)


def request_for(
    *partitions: int, metadata: str | None = None, **member: Any
) -> TxnOffsetCommitRequest:
    return TxnOffsetCommitRequest(
        transactional_id="mine",
        group_id=GROUP,
        producer_id=1000,
        producer_epoch=0,
        topics=[
            TxnOffsetCommitRequestTopic(
                name="t",
                partitions=[
                    TxnOffsetCommitRequestPartition(
                        partition_index=partition,
                        committed_offset=7,
                        committed_leader_epoch=3,
                        committed_metadata=metadata,
                    )
                    for partition in partitions
                ],
            )
        ],
        **member,
    )


def told(commits: OffsetCommits, *partitions: int, **member: Any) -> ErrorCode:
    """What the whole request hears."""
    try:
        result = at_once(commits.commit_transactional(request_for(*(partitions or (0,)), **member)))
    except KafkaError as error:
        return error.code
    assert len(result.records) == len(partitions or (0,))
    return ErrorCode.NONE


def test_what_is_written() -> None:
    coordinator = ClassicCoordinator(SETTINGS)
    result = at_once(commits_of(coordinator).commit_transactional(request_for(1, metadata="why")))
    (record,) = result.records
    assert record == CoordinatorRecord(
        OffsetCommitKey(group=GROUP, topic="t", partition=1),
        OffsetCommitValue(
            offset=7,
            leader_epoch=3,
            metadata="why",
            commit_timestamp=coordinator.timers.now_ms(),
            topic_id=NO_TOPIC_ID,
        ),
        4,
    )
    (null,) = at_once(commits_of(coordinator).commit_transactional(request_for(1))).records
    assert isinstance(null.value, OffsetCommitValue)
    assert null.value.metadata == ""


def test_large_metadata_refuses_its_partition_only() -> None:
    commits = commits_of(ClassicCoordinator(SETTINGS))
    request = request_for(0, 1)
    request.topics[0].partitions[1].committed_metadata = "x" * 11
    result = at_once(commits.commit_transactional(request))
    assert isinstance(result.response, TxnOffsetCommitResponse)
    codes = [one.error_code for one in result.response.topics[0].partitions]
    assert codes == [ErrorCode.NONE, ErrorCode.OFFSET_METADATA_TOO_LARGE]
    assert len(result.records) == 1


def test_a_group_that_nobody_knows() -> None:
    commits = commits_of(ClassicCoordinator())
    assert told(commits) is ErrorCode.NONE, "an offset store without members"
    assert told(commits, generation_id=1, member_id="m") is ErrorCode.ILLEGAL_GENERATION


def test_a_group_of_offsets_has_no_members() -> None:
    coordinator = ClassicCoordinator()
    commits = commits_of(coordinator)
    value = OffsetCommitValue(offset=1)
    commits._offsets.replay(OffsetCommitKey(group=GROUP, topic="t", partition=0), value)
    assert told(commits) is ErrorCode.NONE
    assert told(commits, generation_id=1, member_id="m") is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("member", "code"),
    [
        ({}, ErrorCode.NONE),
        ({"generation_id": 1, "member_id": "first"}, ErrorCode.NONE),
        ({"generation_id": 0, "member_id": "first"}, ErrorCode.ILLEGAL_GENERATION),
        ({"generation_id": 2, "member_id": "first"}, ErrorCode.ILLEGAL_GENERATION),
        ({"generation_id": -1, "member_id": "first"}, ErrorCode.ILLEGAL_GENERATION),
        ({"generation_id": 1, "member_id": "unknown"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"generation_id": 1}, ErrorCode.UNKNOWN_MEMBER_ID),
        (
            {"generation_id": 1, "member_id": "first", "group_instance_id": "instance"},
            ErrorCode.FENCED_INSTANCE_ID,
        ),
        (
            {"generation_id": 1, "member_id": "second", "group_instance_id": "instance"},
            ErrorCode.NONE,
        ),
        (
            {"generation_id": 1, "member_id": "second", "group_instance_id": "other"},
            ErrorCode.UNKNOWN_MEMBER_ID,
        ),
    ],
)
def test_members_of_a_classic_group_are_fenced(member: dict[str, Any], code: ErrorCode) -> None:
    """KIP-447. One who says nothing is a producer of before, and is believed."""
    coordinator = ClassicCoordinator()
    first, second = coordinator.stable_group({}, {"group_instance_id": "instance"})
    ids = {"first": first, "second": second}
    if "member_id" in member:
        member = {**member, "member_id": ids.get(member["member_id"], "unknown")}
    assert told(commits_of(coordinator), **member) is code


def test_a_group_that_completes_a_rebalance_takes_it() -> None:
    coordinator = ClassicCoordinator()
    joined = coordinator.join(coordinator.new_member_id())
    coordinator.timers.advance(coordinator.config.group_initial_rebalance_delay_ms)
    member_id, generation_id = joined.value.member_id, joined.value.generation_id
    assert coordinator.commit(member_id, generation_id) == "REBALANCE_IN_PROGRESS"
    commits = commits_of(coordinator)
    assert told(commits, member_id=member_id, generation_id=generation_id) is ErrorCode.NONE


def test_it_is_no_sign_of_life() -> None:
    coordinator = ClassicCoordinator()
    (member_id,) = coordinator.stable_group({})
    commits = commits_of(coordinator)
    coordinator.timers.advance(classic_groups.SESSION_MS - 1)
    assert told(commits, generation_id=1, member_id=member_id) is ErrorCode.NONE
    coordinator.timers.advance(1)
    assert told(commits, generation_id=1, member_id=member_id) is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_empty_classic_group_takes_it_from_nobody_in_particular() -> None:
    coordinator = ClassicCoordinator()
    (member_id,) = coordinator.stable_group({})
    coordinator.leave(member_id)
    commits = commits_of(coordinator)
    assert told(commits) is ErrorCode.NONE
    assert told(commits, generation_id=1, member_id=member_id) is ErrorCode.UNKNOWN_MEMBER_ID


def test_members_of_a_consumer_group_are_fenced() -> None:
    coordinator = ConsumerCoordinator()
    two_members(coordinator)
    commits = commits_of(coordinator)
    assert told(commits, member_id="a", generation_id=3) is ErrorCode.NONE
    assert told(commits, member_id="c", generation_id=3) is ErrorCode.UNKNOWN_MEMBER_ID
    assert told(commits) is ErrorCode.NONE, "it does not say for whom it acts"
    assert told(commits, generation_id=3) is ErrorCode.UNKNOWN_MEMBER_ID
    assert told(commits, group_instance_id="i") is ErrorCode.UNKNOWN_MEMBER_ID
    # Producers do not know STALE_MEMBER_EPOCH.
    assert told(commits, member_id="a", generation_id=4) is ErrorCode.ILLEGAL_GENERATION


def test_an_epoch_before_is_taken_for_what_the_member_has_had_since_then() -> None:
    """KIP-1251; if one partition is not among that, all are refused."""
    coordinator = ConsumerCoordinator()
    two_members(coordinator)
    commits = commits_of(coordinator)
    assert told(commits, 0, 1, member_id="a", generation_id=2) is ErrorCode.NONE
    refused = told(commits, 0, 2, member_id="a", generation_id=2)
    assert refused is ErrorCode.ILLEGAL_GENERATION
    coordinator.change_topics({"t": 0})
    assert told(commits, 0, member_id="a", generation_id=2) is ErrorCode.ILLEGAL_GENERATION


def test_an_empty_consumer_group_takes_it_from_nobody_in_particular() -> None:
    coordinator = ConsumerCoordinator()
    coordinator.join("a", "t")
    coordinator.leave("a")
    assert told(commits_of(coordinator)) is ErrorCode.NONE
