"""The file of a log's leader epochs, `leader-epoch-checkpoint`, and what of them it does not show.

An epoch is written down with its first record, not when it begins: each start of a broker begins
one for every log that it leads, and most write nothing. Likewise a load that finds epochs without
records in the file forgets them, and leaves the file as it is until the next append; another load
would forget them again. That there is a file says that the log's topic id is on the disk
(`LogLoader`): the queue has synced that before.
"""

from __future__ import annotations

from collections.abc import Callable

from ottla.kernel.disk import Disk
from ottla.kernel.garbage import weakly
from ottla.storage.file_names import LEADER_EPOCH_CHECKPOINT
from ottla.storage.leader_epochs import LeaderEpochs

_UNKNOWN = -2


class LeaderEpochCheckpoint:
    """Owned by its log. What a crash keeps from the file is found in the batches: the file follows
    off the loop, before the recovery point can pass the first record of an epoch."""

    def __init__(
        self,
        disk: Disk,
        partition_path: str,
        epochs: LeaderEpochs,
        submit: Callable[..., object],
        *,
        is_written: bool,
    ) -> None:
        """`submit` calls off the loop, in the order of the log dir's queue. `is_written` where the
        file shows these epochs, or they are none and there is no file."""
        self._disk = disk
        self._path = f"{partition_path}/{LEADER_EPOCH_CHECKPOINT}"
        self._epochs = epochs
        self._submit = weakly(submit)
        self.written_epoch = epochs.latest_epoch if is_written else _UNKNOWN
        """The latest in the file. Whoever appends a record of another one calls `note` before."""

    def begin(self, epoch: int, log_end_offset: int) -> None:
        """A leader begins, and has written nothing yet."""
        self._epochs.assign(epoch, log_end_offset)

    def note(self, epoch: int, base_offset: int) -> None:
        """A record of this epoch is about to be written here."""
        if epoch > self._epochs.latest_epoch:
            self._epochs.assign(epoch, base_offset)
        self.write()

    def write(self) -> None:
        self.written_epoch = self._epochs.latest_epoch
        self._submit(self._disk.replace_file, self._path, self._epochs.content())
