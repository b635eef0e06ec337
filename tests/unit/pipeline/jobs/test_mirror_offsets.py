from __future__ import annotations

import random

import pytest

from ottla.pipeline.jobs.mirror_hops import Hop
from ottla.pipeline.jobs.mirror_offsets import (
    first_copied,
    first_unread_return,
    last_copied,
)
from tests.support.mirror_clusters import FakeLog


def copies(*originals: int | None, start: int = 0) -> dict[int, Hop | None]:
    """Offsets in the source, or None for a record that others wrote."""
    return {
        place: None if original is None else Hop("east", original)
        for place, original in enumerate(originals, start)
    }


def test_an_offset_is_that_of_the_first_record_which_is_not_before_it() -> None:
    log = FakeLog({**copies(0, 1, 2), **copies(5, 9, start=4)}, end=7)
    found = [first_copied(log, "east", offset) for offset in range(11)]
    assert found == [0, 1, 2, 4, 4, 4, 5, 5, 5, 5, None]
    assert first_copied(log, "west", 0) is None
    assert first_copied(FakeLog({}, end=0), "east", 0) is None


@pytest.mark.parametrize("seed", range(40))
def test_it_is_what_reading_all_records_would_find(seed: int) -> None:
    rng = random.Random(seed)
    records: dict[int, Hop | None] = {}
    original, place = 0, rng.randrange(5)
    start = place
    for _ in range(rng.randrange(60)):
        kind = rng.random()
        if kind < 0.6:
            records[place] = Hop("east", original)
            original += rng.choice([1, 1, 1, 4])
        elif kind < 0.8:
            records[place] = rng.choice([None, Hop("west", rng.randrange(100))])
        place += rng.choice([1, 1, 2])
    log = FakeLog(records, end=place, start=start)
    for offset in range(original + 3):
        places = [
            where
            for where, hop in sorted(records.items())
            if hop is not None and hop.cluster_id == "east" and hop.offset >= offset
        ]
        assert first_copied(log, "east", offset) == (places[0] if places else None)


def test_a_long_log_is_searched_and_not_read() -> None:
    log = FakeLog(copies(*range(0, 6000, 2)), end=3000)
    assert first_copied(log, "east", 4111) == 2056
    assert log.read_count < 20


def test_the_last_copy_is_found_from_the_end() -> None:
    assert last_copied(FakeLog({}, end=0), "east") is None
    assert last_copied(FakeLog(copies(None, None), end=2), "east") is None
    log = FakeLog(copies(3, 8, *[None] * 5000), end=5002)
    assert last_copied(log, "east") == 8
    log = FakeLog(copies(*range(10_000)), end=10_001)
    assert last_copied(log, "east") == 9999
    assert log.read_count < 400


SOURCE_ID, TARGET_ID = "east", "west"


def unread(source: FakeLog, target: FakeLog, offset: int, returned: int, end: int) -> int:
    return first_unread_return(source, target, SOURCE_ID, TARGET_ID, offset, returned, end)


def test_of_two_mirrors_that_face_each_other_nothing_unread_is_left_out() -> None:
    """East has written 0, 1 and 4; west 0, 1, and 4, which has not been returned yet."""
    east = FakeLog({0: None, 1: None, 2: Hop("west", 0), 3: Hop("west", 1), 4: None}, end=5)
    west = FakeLog({0: None, 1: None, 2: Hop("east", 0), 3: Hop("east", 1), 4: None}, end=5)
    returned = 4
    assert unread(east, west, 5, returned, end=5) == 4  # all but what was not returned yet
    assert unread(east, west, 3, returned, end=5) == 1  # west's second record is unread in east
    assert unread(east, west, 0, returned, end=2) == 0
    assert unread(east, west, 4, returned, end=4) == 4


def test_where_all_was_returned_and_read_only_copies_decide() -> None:
    east = FakeLog({0: None, 1: Hop("west", 0)}, end=2, start=1)
    west = FakeLog({0: None, 1: Hop("east", 0)}, end=2)
    assert unread(east, west, 2, 2, end=2) == 2
    assert unread(east, west, 0, 2, end=2) == 0  # what retention has deleted does not matter
