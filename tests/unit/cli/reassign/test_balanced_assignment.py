"""Which replicas go where."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping

import pytest

from ottla.cli.reassign.balanced_assignment import Assignment, Replicas, balanced

NO_RACKS: dict[int, str | None] = dict.fromkeys((1, 2, 3))


def spread(counts: Mapping[int, int], brokers: Iterable[int]) -> int:
    """How many more the fullest has than the emptiest."""
    found = [counts.get(broker, 0) for broker in brokers]
    return max(found) - min(found)


def holds(assignment: Assignment) -> Counter[int]:
    return Counter(broker for replicas in assignment.values() for broker in replicas)


def leads(assignment: Assignment) -> Counter[int]:
    return Counter(replicas[0] for replicas in assignment.values())


def copied(before: Mapping[tuple[str, int], Replicas], after: Assignment) -> int:
    return sum(len(set(replicas) - set(before[key])) for key, replicas in after.items())


def round_robin(count: int, brokers: int, factor: int) -> Assignment:
    return {
        ("t", n): tuple((n + shift) % brokers + 1 for shift in range(factor)) for n in range(count)
    }


def test_what_is_balanced_stays() -> None:
    before = round_robin(9, 3, 2)
    assert balanced(before, NO_RACKS) == before


def test_a_new_broker_gets_its_share_and_no_more_is_copied() -> None:
    before = round_robin(12, 3, 2)
    racks = {**NO_RACKS, 4: None}
    after = balanced(before, racks)
    assert (spread(holds(after), racks), spread(leads(after), racks)) == (0, 0)
    assert copied(before, after) == 6, "a quarter of 24 replicas"


def test_a_broker_that_goes_loses_all_and_others_only_take() -> None:
    before = round_robin(12, 4, 2)
    after = balanced(before, NO_RACKS)
    assert set(holds(after)) == {1, 2, 3}
    assert copied(before, after) == 6, "what broker 4 had"
    assert spread(leads(after), NO_RACKS) == 0


def test_the_preferred_leader_changes_without_a_copy() -> None:
    before: Assignment = {("t", n): (1, 2, 3) for n in range(3)}
    after = balanced(before, NO_RACKS)
    assert {frozenset(replicas) for replicas in after.values()} == {frozenset({1, 2, 3})}
    assert sorted(leads(after).values()) == [1, 1, 1]


def test_a_leadership_goes_by_way_of_a_third_broker() -> None:
    before: Assignment = {
        ("t", 0): (1, 2),
        ("t", 1): (1, 2),
        ("t", 2): (2, 3),
        ("t", 3): (3, 1),
        ("t", 4): (3, 4),
        ("t", 5): (4, 3),
        ("t", 6): (1, 4),
        ("t", 7): (2, 4),
    }
    racks = {**NO_RACKS, 4: None}
    assert spread(leads(balanced(before, racks)), racks) == 0


def test_more_and_fewer_replicas() -> None:
    one = round_robin(6, 3, 1)
    three = balanced(one, NO_RACKS, replication_factor=3)
    assert {len(replicas) for replicas in three.values()} == {3}
    assert copied(one, three) == 12
    back = balanced(three, NO_RACKS, replication_factor=1)
    assert {len(replicas) for replicas in back.values()} == {1}
    assert copied(three, back) == 0


def test_replicas_are_in_different_racks() -> None:
    racks: dict[int, str | None] = {1: "a", 2: "a", 3: "b", 4: "b"}
    before: Assignment = {("t", n): ((1, 2), (3, 4))[n % 2] for n in range(8)}
    after = balanced(before, racks)
    assert all(len({racks[broker] for broker in replicas}) == 2 for replicas in after.values())
    assert copied(before, after) == 8, "one of each"
    assert spread(holds(after), racks) == 0


def test_racks_count_only_where_every_broker_has_one() -> None:
    before: Assignment = {("t", 0): (1, 2), ("t", 1): (2, 1), ("t", 2): (3, 1), ("t", 3): (3, 2)}
    racks: dict[int, str | None] = {1: "a", 2: "a", 3: None}
    assert copied(before, balanced(before, racks)) == 0


def test_each_topic_is_spread_and_small_topics_are_spread_together() -> None:
    before: Assignment = {(f"t{n}", 0): (1,) for n in range(9)}
    before |= {("big", n): (2,) for n in range(6)}
    after = balanced(before, NO_RACKS)
    assert spread(holds(after), NO_RACKS) == 0
    big = {key: replicas for key, replicas in after.items() if key[0] == "big"}
    assert spread(holds(big), NO_RACKS) == 0


def test_partitions_that_stay_count_as_load() -> None:
    after = balanced({("t", 0): (1,)}, NO_RACKS, others=[(1, 2)] * 5)
    assert after == {("t", 0): (3,)}


@pytest.mark.parametrize("seed", range(30))
def test_any_cluster(seed: int) -> None:
    rng = random.Random(seed)
    before_brokers = list(range(1, rng.randint(2, 6)))
    after_brokers = sorted(rng.sample(range(1, 9), rng.randint(3, 6)))
    before: Assignment = {}
    for topic in range(rng.randint(1, 4)):
        factor = rng.randint(1, min(3, len(before_brokers)))
        for number in range(rng.randint(1, 12)):
            before[f"t{topic}", number] = tuple(rng.sample(before_brokers, factor))
    racks: dict[int, str | None] = {
        broker: rng.choice("ab") if seed % 2 else None for broker in after_brokers
    }
    after = balanced(before, racks)
    assert after.keys() == before.keys()
    rack_count = len(set(racks.values()))
    for key, replicas in after.items():
        assert len(set(replicas)) == len(replicas) == len(before[key])
        assert set(replicas) <= set(after_brokers)
        assert len({racks[broker] for broker in replicas}) == min(len(replicas), rack_count)
    if rack_count == 1:
        assert spread(holds(after), after_brokers) <= 1
        assert spread(leads(after), after_brokers) <= 1 + len({topic for topic, _ in after})
    assert copied(after, balanced(after, racks)) == 0, "a second plan has nothing to copy"
