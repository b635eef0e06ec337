from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.controller.placement import _place, place, place_more
from ottla.kernel.errors import ErrorCode, KafkaError


def test_without_racks_it_is_the_table_of_kafkas_documentation() -> None:
    racks = dict.fromkeys(range(5))
    placed = _place(racks, range(10), 3, start=0, shift=0)
    assert placed == [
        (0, 1, 2),
        (1, 2, 3),
        (2, 3, 4),
        (3, 4, 0),
        (4, 0, 1),
        (0, 2, 3),
        (1, 3, 4),
        (2, 4, 0),
        (3, 0, 1),
        (4, 1, 2),
    ]


def test_with_racks_it_is_the_example_of_kafkas_documentation() -> None:
    racks = {0: "rack1", 1: "rack3", 2: "rack3", 3: "rack2", 4: "rack2", 5: "rack1"}
    placed = _place(racks, range(7), 3, start=0, shift=0)
    assert placed == [
        (0, 3, 1),
        (3, 1, 5),
        (1, 5, 4),
        (5, 4, 2),
        (4, 2, 0),
        (2, 0, 3),
        (0, 4, 2),
    ]


def test_racks_count_only_when_every_broker_has_one() -> None:
    some = _place({0: "a", 1: None, 2: "a"}, range(3), 2, start=0, shift=0)
    assert some == _place({0: None, 1: None, 2: None}, range(3), 2, start=0, shift=0)


@st.composite
def clusters(draw: st.DrawFn) -> tuple[dict[int, str | None], int, int]:
    ids = draw(st.sets(st.integers(0, 1000), min_size=1, max_size=12))
    rack = st.none() if draw(st.booleans()) else st.sampled_from("abcd")
    racks = {broker: draw(rack) for broker in sorted(ids)}
    return racks, draw(st.integers(1, 60)), draw(st.integers(1, len(ids)))


@given(clusters(), st.integers())
def test_replicas_are_spread(cluster: tuple[dict[int, str | None], int, int], seed: int) -> None:
    racks, partition_count, factor = cluster
    placed = place(
        racks,
        partition_count=partition_count,
        replication_factor=factor,
        rng=random.Random(seed),
    )
    assert len(placed) == partition_count
    for replicas in placed:
        assert len(set(replicas)) == len(replicas) == factor
        assert set(replicas) <= set(racks)
        used = [racks[broker] for broker in replicas]
        if None not in used:
            assert len(set(used)) == min(factor, len(set(racks.values())))
    first = Counter(dict.fromkeys(racks, 0))
    first.update(replicas[0] for replicas in placed)
    assert max(first.values()) - min(first.values()) <= 1


@given(clusters(), st.integers(1, 30))
def test_added_partitions_go_on_round_the_brokers(
    cluster: tuple[dict[int, str | None], int, int], additional_count: int
) -> None:
    racks, partition_count, factor = cluster
    # Racks make another order of the same brokers, where the start cannot be told from an id.
    racks = dict.fromkeys(racks)
    old = place(
        racks,
        partition_count=partition_count,
        replication_factor=factor,
        rng=random.Random(partition_count),
    )
    new = place_more(
        racks,
        first_replica=old[0][0],
        partition_count=partition_count,
        additional_count=additional_count,
        replication_factor=factor,
    )
    assert len(new) == additional_count
    leaders = Counter(dict.fromkeys(racks, 0))
    leaders.update(replicas[0] for replicas in [*old, *new])
    assert max(leaders.values()) - min(leaders.values()) <= 1
    assert all(len(set(replicas)) == factor for replicas in new)


@pytest.mark.parametrize("broker_count", [0, 1])
def test_more_replicas_than_brokers_are_refused(broker_count: int) -> None:
    racks: dict[int, str | None] = dict.fromkeys(range(broker_count))
    factor = broker_count + 1
    with pytest.raises(KafkaError) as new:
        place(racks, partition_count=1, replication_factor=factor, rng=random.Random(0))
    assert new.value.code is ErrorCode.INVALID_REPLICATION_FACTOR
    with pytest.raises(KafkaError) as more:
        place_more(
            racks,
            first_replica=0,
            partition_count=1,
            additional_count=1,
            replication_factor=factor,
        )
    assert more.value.code is ErrorCode.INVALID_REPLICATION_FACTOR
