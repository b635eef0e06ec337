from __future__ import annotations

from ottla.coordinators.groups.consumer.records import (
    group_records,
    group_tombstones,
    replacing_records,
)
from ottla.coordinators.groups.records import (
    RECORD_TYPES,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
)
from ottla.coordinators.record import CoordinatorRecord, decode_record, encode_record
from ottla.coordinators.result import Result
from tests.support.consumer_groups import GROUP, ConsumerCoordinator


def test_every_record_is_read_as_it_was_written() -> None:
    coordinator = ConsumerCoordinator()
    coordinator.join("a", "t", subscribed_topic_regex="t.*", subscribed_topic_names=["u"])
    for record in coordinator.records:
        assert decode_record(RECORD_TYPES, *encode_record(record)) == record


def test_a_whole_group_is_written_anew() -> None:
    coordinator = ConsumerCoordinator()
    coordinator.join("a", "t", instance_id="i")
    coordinator.join("b", "t")
    before = coordinator.describe()
    records = group_records(coordinator.group)
    other = ConsumerCoordinator()
    other.write(Result(None, records))
    assert other.describe() == before


def test_tombstones_take_back_everything_that_a_group_wrote() -> None:
    coordinator = ConsumerCoordinator()
    coordinator.join("a", "t", subscribed_topic_regex="t.*", subscribed_topic_names=["u"])
    key = ConsumerGroupPartitionMetadataKey(group_id=GROUP)
    old = CoordinatorRecord(key, ConsumerGroupPartitionMetadataValue())
    coordinator.write(Result(None, [old]))
    tombstones = group_tombstones(coordinator.group)
    assert {repr(record.key) for record in tombstones} == {
        repr(record.key) for record in coordinator.records
    }
    assert all(record.value is None for record in tombstones)


def test_a_member_that_takes_a_place_under_the_same_id_is_there_afterwards() -> None:
    coordinator = ConsumerCoordinator()
    coordinator.join("a", "t", instance_id="i")
    member = coordinator.group.members["a"]
    coordinator.write(Result(None, replacing_records(coordinator.group, member, member)))
    assert coordinator.group.members == {"a": member}
    assert coordinator.group.static_member_ids == {"i": "a"}
