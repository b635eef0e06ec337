from __future__ import annotations

import pytest

from ottla.storage.errors import CorruptFile
from ottla.storage.leader_epochs import EpochEntry, LeaderEpochs


def _epochs(*entries: tuple[int, int]) -> LeaderEpochs:
    return LeaderEpochs(EpochEntry(*entry) for entry in entries)


def test_the_file_is_kafkas() -> None:
    epochs = _epochs((0, 0), (3, 120))
    assert epochs.content() == b"0\n2\n0 0\n3 120\n"
    assert LeaderEpochs.parse(epochs.content()).entries == epochs.entries
    assert LeaderEpochs.parse(b"").entries == []


@pytest.mark.parametrize("row", [b"x y", b"-1 0", b"0 -1", b"1"])
def test_damage_of_the_file_is_told(row: bytes) -> None:
    with pytest.raises(CorruptFile):
        LeaderEpochs.parse(b"0\n1\n" + row + b"\n")


def test_assign_reports_whether_anything_changed() -> None:
    epochs = _epochs()
    assert epochs.assign(1, 0)
    assert not epochs.assign(1, 0)
    assert not epochs.assign(1, 10)
    assert epochs.assign(2, 10)
    assert epochs.latest_epoch == 2


def test_assign_drops_entries_that_contradict_it() -> None:
    """A leader that wrote nothing leaves an entry where the next one begins."""
    epochs = _epochs((1, 0), (2, 10), (3, 20))
    epochs.assign(4, 20)
    assert epochs.entries == [(1, 0), (2, 10), (4, 20)]
    epochs.assign(2, 5)
    assert epochs.entries == [(1, 0), (2, 5)]


@pytest.mark.parametrize(
    ("epoch", "answer"),
    [
        (5, (5, 100)),
        (6, (-1, -1)),
        (-1, (-1, -1)),
        (2, (2, 30)),
        (3, (2, 30)),
        (4, (4, 50)),
        (1, (1, 10)),
    ],
)
def test_end_offset_for(epoch: int, answer: tuple[int, int]) -> None:
    """KIP-279: the largest epoch not above the one asked for, and where it ends; an epoch whose
    records are all deleted ends where the log begins."""
    assert _epochs((2, 10), (4, 30), (5, 50)).end_offset_for(epoch, 100) == answer


def test_end_offset_of_an_empty_log_is_unknown() -> None:
    assert _epochs().end_offset_for(0, 0) == (-1, -1)


@pytest.mark.parametrize(("offset", "epoch"), [(9, None), (10, 2), (29, 2), (30, 4), (999, 4)])
def test_epoch_for_offset(offset: int, epoch: int | None) -> None:
    assert _epochs((2, 10), (4, 30)).epoch_for_offset(offset) == epoch


@pytest.mark.parametrize(
    ("end_offset", "left", "latest"), [(51, 3, 5), (50, 2, 4), (30, 1, 2), (10, 0, -1)]
)
def test_truncate_from_end(end_offset: int, left: int, latest: int) -> None:
    epochs = _epochs((2, 10), (4, 30), (5, 50))
    assert epochs.truncate_from_end(end_offset) is (left < 3)
    assert len(epochs.entries) == left
    assert epochs.latest_epoch == latest


def test_truncate_from_start_keeps_the_epoch_that_holds_the_start() -> None:
    epochs = _epochs((2, 10), (4, 30), (5, 50))
    assert not epochs.truncate_from_start(10)
    assert not epochs.truncate_from_start(0)
    assert epochs.truncate_from_start(35)
    assert epochs.entries == [(4, 35), (5, 50)]
    assert epochs.truncate_from_start(100)
    assert epochs.entries == [(5, 100)]
    assert epochs.latest_epoch == 5
