"""A classic group in the log, as this and older brokers write it."""

from __future__ import annotations

import pytest

from ottla.coordinators.groups.classic.records import group_from_record, group_tombstone
from ottla.coordinators.groups.records import (
    RECORD_TYPES,
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
)
from ottla.coordinators.record import CoordinatorRecord, decode_record, encode_record
from tests.support.classic_groups import ClassicCoordinator

VALUE = GroupMetadataValue(
    protocol_type="consumer",
    generation=7,
    protocol="range",
    leader="b",
    current_state_timestamp=1_700_000_000_000,
    members=[
        MemberMetadata(
            member_id=name,
            group_instance_id=f"instance of {name}",
            client_id="app",
            client_host="/10.0.0.1",
            rebalance_timeout=60_000,
            session_timeout=10_000,
            subscription=b"subscription",
            assignment=name.encode(),
        )
        for name in "ab"
    ],
)


def read_back(value: GroupMetadataValue, version: int) -> GroupMetadataValue:
    key, encoded = encode_record(CoordinatorRecord(GroupMetadataKey(group="g"), value, version))
    record = decode_record(RECORD_TYPES, key, encoded)
    assert record is not None
    assert isinstance(record.value, GroupMetadataValue)
    return record.value


@pytest.mark.parametrize("version", range(5))
def test_groups_of_all_versions_are_loaded(version: int) -> None:
    group = group_from_record(GroupMetadataKey(group="g"), read_back(VALUE, version))

    assert (group.state_name, group.generation_id, group.leader_id) == ("Stable", 7, "b")
    assert (group.protocol_type, group.protocol_name) == ("consumer", "range")
    assert group.state_timestamp_ms == (VALUE.current_state_timestamp if version >= 2 else -1)
    first = group.members["a"]
    assert (first.session_timeout_ms, first.assignment) == (10_000, b"a")
    assert first.rebalance_timeout_ms == (60_000 if version >= 1 else 10_000)
    assert first.instance_id == ("instance of a" if version >= 3 else None)
    assert group.static_member_ids == (
        {"instance of a": "a", "instance of b": "b"} if version >= 3 else {}
    )


def test_a_leader_that_is_no_member_does_not_lead() -> None:
    value = read_back(VALUE, 3)
    value.leader = "gone"

    assert group_from_record(GroupMetadataKey(group="g"), value).leader_id == "a"


def test_records_have_the_version_that_kafka_writes() -> None:
    coordinator = ClassicCoordinator()
    (member,) = coordinator.stable_group({})
    coordinator.leave(member)

    assert [encoded[:2] for _, encoded in coordinator.log if encoded] == [b"\0\3"] * 3
    assert {key for key, _ in coordinator.log} == {b"\0\2\0\5group"}


def test_the_log_tells_how_a_group_was() -> None:
    coordinator = ClassicCoordinator()
    (member,) = coordinator.stable_group({"client_id": "app"})
    coordinator.leave(member)

    new, stable, empty = (record.value for record in coordinator.records)
    assert isinstance(new, GroupMetadataValue)
    assert isinstance(stable, GroupMetadataValue)
    assert isinstance(empty, GroupMetadataValue)
    assert (new.generation, new.protocol_type, new.protocol, new.leader) == (0, "", None, None)
    assert (stable.generation, stable.protocol, stable.leader) == (1, "range", member)
    assert stable.members == [
        MemberMetadata(
            member_id=member,
            client_id="app",
            client_host="/10.0.0.1",
            rebalance_timeout=60_000,
            session_timeout=10_000,
            subscription=b"metadata",
            assignment=b"0",
        )
    ]
    assert (empty.generation, empty.protocol_type, empty.protocol) == (2, "consumer", None)
    assert empty.members == []


def test_a_tombstone_has_no_value() -> None:
    assert encode_record(group_tombstone("g")) == (b"\0\2\0\1g", None)
