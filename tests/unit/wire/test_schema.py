from __future__ import annotations

import doctest

import pytest

from ottla.wire import schema
from ottla.wire.messages.fetch import LeaderIdAndEpoch, PartitionData
from ottla.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from ottla.wire.schema import Struct, array, int32, nested, parse_versions, string


def test_examples_in_the_documentation() -> None:
    assert doctest.testmod(schema).failed == 0


def test_versions_are_written_as_kafka_writes_them() -> None:
    assert list(parse_versions("3")) == [3]
    assert list(parse_versions("3-5")) == [3, 4, 5]
    assert list(parse_versions("none")) == []
    assert 0x7FFF in parse_versions("9+")
    assert 8 not in parse_versions("9+")


def test_a_message_knows_its_api_and_versions() -> None:
    assert ProduceRequest.API_KEY == 0
    assert list(ProduceRequest.VERSIONS) == list(range(3, 14))
    assert not ProduceRequest.is_flexible(8)
    assert ProduceRequest.is_flexible(9)


def test_every_field_has_a_default() -> None:
    partition = PartitionData()

    assert partition.partition_index == 0
    assert partition.log_start_offset == -1
    assert partition.records is None
    assert partition.current_leader == LeaderIdAndEpoch(leader_id=-1, leader_epoch=-1)


def test_lists_are_not_shared_between_instances() -> None:
    one, other = ProduceResponse(), ProduceResponse()
    one.responses.append(TopicProduceResponse())

    assert other.responses == []


def test_a_shared_default_cannot_be_changed() -> None:
    leader = PartitionProduceResponse().current_leader

    with pytest.raises(AttributeError, match="LeaderIdAndEpoch is frozen"):
        leader.leader_id = 3  # type: ignore[misc]
    with pytest.raises(AttributeError, match="is frozen"):
        del leader.leader_id
    assert PartitionProduceResponse().current_leader.leader_id == -1
    assert len({leader, type(leader)()}) == 1


def test_a_struct_that_stands_alone_must_be_frozen() -> None:
    class Thawed(Struct):
        index: int = int32()

    with pytest.raises(AssertionError, match="Thawed"):
        nested(Thawed, tag=0)


def test_instances_have_no_room_for_misspelled_fields() -> None:
    partition = PartitionProduceResponse()

    with pytest.raises(AttributeError):
        partition.eror_code = 3  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="eror_code"):
        PartitionProduceResponse(eror_code=3)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        PartitionProduceResponse(1)  # type: ignore[call-arg]


def test_equality_and_repr_are_those_of_a_dataclass() -> None:
    class Pair(Struct):
        name: str = string()
        indexes: list[int] = array(int32())

    class Other(Struct):
        name: str = string()
        indexes: list[int] = array(int32())

    assert Pair(name="a", indexes=[1]) == Pair(name="a", indexes=[1])
    assert Pair(name="a") != Pair(name="b")
    assert Pair() != Other()
    assert repr(Pair(name="a", indexes=[1])) == "Pair(name='a', indexes=[1])"
    with pytest.raises(TypeError, match="unhashable"):
        hash(Pair())
