"""Open files of closed segments, the most recently used of the whole broker."""

from __future__ import annotations

from collections import OrderedDict

from ottla.kernel.disk import Disk, File


class FileCache:
    """Owned by the log manager, shared by its logs. A file that falls out of it closes once no
    queued slice refers to it. Used from the loop, and while loading from one thread at a time."""

    def __init__(self, disk: Disk, *, file_count_max: int = 512) -> None:
        self._disk = disk
        self._files: OrderedDict[str, File] = OrderedDict()
        self._file_count_max = file_count_max

    def open(self, path: str) -> File:
        file = self._files.get(path)
        if file is None:
            file = self._disk.open(path)
            self._files[path] = file
            if len(self._files) > self._file_count_max:
                self._files.popitem(last=False)
        else:
            self._files.move_to_end(path)
        return file

    def keep(self, file: File) -> None:
        """Takes in a file that was opened elsewhere: of an active segment that was rolled."""
        self._files[file.path] = file
        if len(self._files) > self._file_count_max:
            self._files.popitem(last=False)

    def forget(self, path: str) -> None:
        """Must follow a rename or a removal: the path may come to mean another file."""
        self._files.pop(path, None)

    def clear(self) -> None:
        self._files.clear()
