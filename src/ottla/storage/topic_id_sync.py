"""The topic ids of logs that are new, or whose broker was killed before their first record: synced
together, and before any record of theirs.

Were it the other way round, the power could take the id and leave the records, and a later topic of
that name would have them."""

from __future__ import annotations

from collections import deque

from ottla.storage.file_names import PARTITION_METADATA
from ottla.storage.folder import LogFolder
from ottla.storage.log import Log


class TopicIdSync:
    """Owned by the log manager, one for each log dir. A topic of a thousand partitions is made in
    one go, and one job of the log dir's queue syncs them all when it is done
    (`LogManager.logs_made`). Flushes of a log, and its leader epochs, are submitted after it was
    added, so that job comes before them in any case."""

    def __init__(self, folder: LogFolder) -> None:
        self._folder = folder
        self._unsynced: deque[Log] = deque()

    def add(self, log: Log) -> None:
        """Its id, if it has one, is written. The names of its files are synced as well, and its
        own in the log dir."""
        self._unsynced.append(log)
        self._folder.put_off(self._sync)

    def _sync(self) -> None:
        """Off the loop. What is added from now on has a job of its own."""
        disk = self._folder.disk
        for _ in range(len(self._unsynced)):
            log = self._unsynced.popleft()
            if log.topic_id is not None:
                disk.open(f"{log.path}/{PARTITION_METADATA}").sync()
            # Set before it is true: whoever changes names meanwhile sets it back.
            log.active.is_entry_synced = True
            disk.sync_folder(log.path)
        disk.sync_folder(self._folder.path)
