from __future__ import annotations

import random
from typing import Any

import pytest

from ottla.storage.leader_epoch_checkpoint import LeaderEpochCheckpoint
from ottla.storage.leader_epochs import EpochEntry, LeaderEpochs
from ottla.testing.disk import SimulatedDisk


class Queue:
    """Of the log dir, at once."""

    def __init__(self) -> None:
        self.disk = SimulatedDisk(random.Random(0), now_ms=lambda: 0)
        self.disk.make_folders("/t-0")
        self.count = 0

    def submit(self, function: Any, *args: Any) -> None:
        self.count += 1
        function(*args)

    def checkpoint(self, epochs: LeaderEpochs, *, is_written: bool = True) -> LeaderEpochCheckpoint:
        return LeaderEpochCheckpoint(self.disk, "/t-0", epochs, self.submit, is_written=is_written)

    def written(self) -> list[EpochEntry]:
        return LeaderEpochs.parse(self.disk.read_file("/t-0/leader-epoch-checkpoint")).entries


def test_an_epoch_is_written_with_its_first_record() -> None:
    queue, epochs = Queue(), LeaderEpochs()
    checkpoint = queue.checkpoint(epochs)
    checkpoint.begin(0, 0)
    checkpoint.begin(3, 0)
    assert (queue.count, epochs.entries) == (0, [(3, 0)])
    assert checkpoint.written_epoch != 3
    checkpoint.note(3, 0)
    assert (checkpoint.written_epoch, queue.written()) == (3, [(3, 0)])
    checkpoint.begin(4, 10)
    checkpoint.note(4, 10)
    assert queue.written() == [(3, 0), (4, 10)]


def test_an_epoch_of_a_follower_begins_with_its_first_record() -> None:
    queue, epochs = Queue(), LeaderEpochs()
    checkpoint = queue.checkpoint(epochs)
    checkpoint.note(2, 5)
    assert queue.written() == [(2, 5)]


@pytest.mark.parametrize("epoch", [3, 7])
def test_what_the_file_has_too_much_goes_with_the_next_record_of_any_epoch(epoch: int) -> None:
    """A load forgot epoch 5, which had no records, and left the file as it was: a follower that
    appends there in epoch 3 would find epoch 5 in the way after the next start."""
    queue, epochs = Queue(), LeaderEpochs([EpochEntry(3, 0)])
    checkpoint = queue.checkpoint(epochs, is_written=False)
    assert queue.count == 0
    assert checkpoint.written_epoch != epoch
    checkpoint.note(epoch, 8)
    assert queue.written() == ([(3, 0)] if epoch == 3 else [(3, 0), (7, 8)])
    assert checkpoint.written_epoch == epoch
