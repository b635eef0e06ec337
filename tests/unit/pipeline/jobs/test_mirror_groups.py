from __future__ import annotations

from typing import Any, cast

import pytest

from ottla.client.blocking_groups import CommittedOffset
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import TopicPartition
from ottla.pipeline.jobs.mirror_groups import Clusters, MirroredGroups, ledger_group
from ottla.pipeline.jobs.mirror_hops import Hop
from ottla.pipeline.sink.transaction import LedgerEntry
from tests.support.mirror_clusters import FakeCluster, FakeLog, patch_clients

HERE = TopicPartition("clicks", 0)
OTHER = TopicPartition("clicks", 1)


class Pair:
    """East has 10 records from offset 100 on; west has them from 0 on, but for two marks."""

    def __init__(self) -> None:
        places = [0, 1, 2, 3, 4, 6, 7, 8, 9, 10]
        copies: dict[int, Hop | None] = {
            place: Hop("east", 100 + index) for index, place in enumerate(places)
        }
        self.east = FakeCluster("east", {HERE: FakeLog({}, 110, 100), OTHER: FakeLog({}, 5)})
        self.west = FakeCluster("west", {HERE: FakeLog(copies, 12), OTHER: FakeLog({}, 0)})
        self.positions = {HERE: 110}
        self.groups = self.restarted()

    def restarted(self, pattern: str = ".*") -> MirroredGroups:
        clusters = Clusters(cast("Any", self.east), cast("Any", self.west), "east", "west")
        return MirroredGroups(clusters, pattern, "reads-by-spark")

    def translated(self, offset: int, group: str = "readers") -> int | None:
        self.east.groups[group] = {HERE: CommittedOffset(offset, "note")}
        self.groups.copy(self.positions)
        found = self.west.groups.get(group, {}).get(HERE)
        return None if found is None else found.offset


@pytest.fixture
def pair(monkeypatch: pytest.MonkeyPatch) -> Pair:
    patch_clients(monkeypatch)
    return Pair()


@pytest.mark.parametrize(
    ("offset", "expected"), [(0, 0), (100, 0), (104, 4), (105, 6), (109, 10), (110, 12), (115, 12)]
)
def test_an_offset_is_that_of_the_first_record_unread(
    pair: Pair, offset: int, expected: int
) -> None:
    assert pair.translated(offset) == expected
    assert pair.west.groups["readers"][HERE].metadata == "note"


def test_what_comes_later_is_committed_once(pair: Pair) -> None:
    assert pair.translated(104) == 4
    assert pair.translated(104) == 4
    assert pair.translated(107) == 8
    assert pair.west.commits == ["readers"] * 2


def test_a_group_ahead_of_the_mirror_is_told_again(pair: Pair) -> None:
    """It has read what is not copied yet: all that is there is behind it, and more to come."""
    assert pair.translated(112) == 12
    copies = {**dict(pair.west.logs[HERE].records), 12: Hop("east", 110), 13: Hop("east", 113)}
    pair.west.logs[HERE] = FakeLog(copies, 14)
    pair.positions[HERE] = 114
    assert pair.translated(112) == 13


def test_records_of_a_transaction_that_is_open_may_yet_come(pair: Pair) -> None:
    pair.west.open_records = 2
    assert pair.translated(110) == 12
    pair.west.open_records = 0
    pair.west.logs[HERE] = FakeLog(dict(pair.west.logs[HERE].records), 14)
    assert pair.translated(110) == 14


def test_a_group_that_goes_back_is_followed_until_it_reads_at_the_target(pair: Pair) -> None:
    assert pair.translated(107) == 8
    assert pair.translated(102) == 2
    pair.west.groups["readers"][HERE] = CommittedOffset(9)
    assert pair.translated(103) == 9
    assert pair.translated(109) == 10


def test_after_a_restart_an_offset_of_the_target_only_moves_forward(pair: Pair) -> None:
    assert pair.translated(107) == 8
    pair.groups = pair.restarted()
    assert pair.translated(102) == 8
    assert pair.translated(109) == 10


def test_groups_with_members_at_the_target_are_left_alone(pair: Pair) -> None:
    pair.west.groups["readers"] = {}
    pair.west.active.add("readers")
    assert pair.translated(107) is None
    pair.west.active.clear()
    assert pair.translated(107) == 8


def test_a_member_that_joins_meanwhile_is_no_error(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(group: str, offsets: Any) -> None:
        raise KafkaError(code, "refused")

    monkeypatch.setattr(pair.west, "commit", refuse)
    code = ErrorCode.UNKNOWN_MEMBER_ID
    assert pair.translated(107) is None
    code = ErrorCode.GROUP_AUTHORIZATION_FAILED
    with pytest.raises(KafkaError):
        pair.translated(107)


def test_only_groups_and_partitions_that_are_meant(pair: Pair) -> None:
    pair.groups = pair.restarted("read.*")
    ledger = CommittedOffset(3, LedgerEntry("query", 7).text())
    pair.east.groups["reads-by-itself"] = {HERE: ledger}
    pair.east.groups["reads-by-spark.loud"] = {HERE: CommittedOffset(103)}
    pair.east.groups[ledger_group("north", "mirror")] = {HERE: CommittedOffset(3)}
    pair.east.groups["others"] = {HERE: CommittedOffset(103)}
    pair.east.groups["readers"] = {OTHER: CommittedOffset(3)}
    pair.groups.copy(pair.positions)
    assert pair.west.commits == []


def test_a_mirror_the_other_way_makes_the_first_unread_record_of_either_count(pair: Pair) -> None:
    """West has written one record between the copies, and east has it behind its own."""
    copies = {**dict(pair.west.logs[HERE].records), 5: None}
    pair.west.logs[HERE] = FakeLog(copies, 12)
    assert pair.translated(110) == 12
    pair.east.logs[HERE] = FakeLog({110: Hop("west", 5)}, 111, 100)
    pair.positions[HERE] = 111
    pair.east.groups[ledger_group("west", "back")] = {HERE: CommittedOffset(12)}
    assert pair.translated(109) == 5
    assert pair.translated(111) == 12
    # One more in west, which did not get to east yet.
    pair.west.logs[HERE] = FakeLog({**copies, 12: None, 13: Hop("east", 111)}, 14)
    pair.positions[HERE] = 112
    assert pair.translated(112) == 12


def test_ledgers_are_named_after_the_source() -> None:
    assert ledger_group("east", "nightly") == "ottla-mirror.east.nightly"
