"""A disk in memory that forgets, tears, fills up and fails.

It keeps apart what programs see and what would be found after the power failed: a file's bytes
become durable by `sync`, the names in a folder by `sync_folder`. A crash keeps, of what was not
synced, a prefix of each file's writes and of each folder's changes, drawn from the seed: files
do not wait for one another, as on a real disk. The last write that is kept may be torn: cut
short, or ending in zeros.
"""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ottla.kernel.disk import Buffer, File, Lock
from ottla.testing.disk_pace import DiskPace


class _FileNode:
    """What an inode is: content without a name."""

    def __init__(self) -> None:
        self.content = bytearray()
        self.durable = bytearray()
        self.unsynced: list[tuple[int, bytes | None]] = []
        """Writes (offset, bytes) and truncations (size, None) since the last sync."""
        self.modified_ms = 0
        self.is_cold = False

    def change(self, offset: int, data: bytes | None) -> None:
        _apply(self.content, offset, data)
        self.unsynced.append((offset, data))

    def sync(self) -> None:
        for offset, data in self.unsynced:
            _apply(self.durable, offset, data)
        self.unsynced.clear()

    def crash(self, rng: random.Random, *, keep: bool) -> None:
        kept = self.unsynced[: rng.randint(0, len(self.unsynced))] if keep else []
        if kept and rng.random() < 0.5:
            offset, data = kept[-1]
            if data:
                whole = rng.randrange(len(data))
                # The file's new size may reach the disk before all of its new pages.
                rest = bytes(len(data) - whole) if rng.random() < 0.5 else b""
                kept[-1] = (offset, data[:whole] + rest)
        self.unsynced = kept
        self.sync()
        self.content = bytearray(self.durable)
        self.is_cold = False


class _FolderNode:
    def __init__(self) -> None:
        self.entries: dict[str, _FileNode | _FolderNode] = {}
        self.durable: dict[str, _FileNode | _FolderNode] = {}
        self.unsynced: list[tuple[str, str, _FileNode | _FolderNode | None]] = []
        """(name that goes, name that comes, its node): one step, as a rename is."""

    def change(self, gone: str, new: str, node: _FileNode | _FolderNode | None) -> None:
        _apply_names(self.entries, gone, new, node)
        self.unsynced.append((gone, new, node))

    def sync(self) -> None:
        for change in self.unsynced:
            _apply_names(self.durable, *change)
        self.unsynced.clear()

    def crash(self, rng: random.Random, *, keep: bool) -> None:
        self.unsynced = self.unsynced[: rng.randint(0, len(self.unsynced))] if keep else []
        self.sync()
        self.entries = dict(self.durable)
        for name in sorted(self.entries):
            self.entries[name].crash(rng, keep=keep)


def _apply(content: bytearray, offset: int, data: bytes | None) -> None:
    if data is None:
        del content[offset:]
        data = b""
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data


def _apply_names(
    entries: dict[str, _FileNode | _FolderNode],
    gone: str,
    new: str,
    node: _FileNode | _FolderNode | None,
) -> None:
    entries.pop(gone, None)
    if new and node is not None:
        entries[new] = node


@dataclass
class Fault:
    """Calls of `operation` on a path that contains `path_part` fail, after `skip` that do not,
    `count` times (-1: for ever). Operations are the names of the methods of `File` and `Disk`."""

    operation: str
    path_part: str = ""
    error: int = errno.EIO
    skip: int = 0
    count: int = -1
    hit_count: int = field(default=0, init=False)

    def check(self, operation: str, path: str) -> None:
        if operation != self.operation or self.path_part not in path or self.count == 0:
            return
        if self.skip > 0:
            self.skip -= 1
            return
        self.count -= 1
        self.hit_count += 1
        raise OSError(self.error, os.strerror(self.error), path)


class SimulatedFile:
    def __init__(self, disk: SimulatedDisk, path: str, node: _FileNode) -> None:
        self.path = path
        self._disk = disk
        self._node = node
        self._boot_count = disk.boot_count
        self._is_closed = False

    def fileno(self) -> int:
        raise OSError(errno.EBADF, "a simulated file has no descriptor", self.path)

    def size(self) -> int:
        self._check("size")
        return len(self._node.content)

    def read_at(self, offset: int, length: int) -> bytes:
        self._check("read_at")
        self._node.is_cold = False
        return bytes(self._node.content[offset : offset + length])

    def write_at(self, offset: int, buffers: Sequence[Buffer]) -> None:
        self._check("write_at")
        data = b"".join(buffers)
        room = self._disk.claim(offset + len(data) - len(self._node.content))
        if room < 0:
            # What fits is written, as by the real thing.
            self._node.change(offset, data[: len(data) + room])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.path)
        self._node.change(offset, data)
        self._node.modified_ms = self._disk.now_ms()
        self._disk.on_write(self.path)

    def truncate(self, size: int) -> None:
        self._check("truncate")
        self._disk.claim(size - len(self._node.content))
        self._node.change(size, None)
        self._node.modified_ms = self._disk.now_ms()

    def sync(self) -> None:
        try:
            self._check("sync")
        except OSError:
            # The kernel marks the pages clean and forgets them: a second try would succeed and
            # mean nothing.
            self._node.unsynced.clear()
            raise
        self._node.sync()

    def is_cached(self, offset: int, length: int) -> bool:
        self._check("is_cached")
        return not self._node.is_cold

    def close(self) -> None:
        self._is_closed = True

    def _check(self, operation: str) -> None:
        if self._is_closed or self._boot_count != self._disk.boot_count:
            raise OSError(
                errno.EBADF, "the file is closed, or was opened before a crash", self.path
            )
        self._disk.check(operation, self.path)


class _SimulatedLock:
    def __init__(self, disk: SimulatedDisk, path: str) -> None:
        self._disk = disk
        self._path = path

    def release(self) -> None:
        self._disk.unlock(self._path)


class SimulatedDisk:
    """One machine's disk. Outlives the brokers that a test crashes and starts on it."""

    def __init__(
        self,
        rng: random.Random,
        *,
        capacity_bytes: int = 1 << 40,
        now_ms: Callable[[], int] = lambda: 0,
        pace: DiskPace | None = None,
    ) -> None:
        self._rng = rng
        self._pace = pace
        self._root = _FolderNode()
        self._locked: set[str] = set()
        self._capacity_bytes = self._usual_capacity_bytes = capacity_bytes
        self._used_bytes = 0
        self.now_ms = now_ms
        self.faults: list[Fault] = []
        self.on_write: Callable[[str], None] = lambda path: None
        """Told of every write to a file, when it has happened."""
        self.boot_count = 0

    # What a test does to it

    def crash(self, *, keep_unsynced: bool = True) -> None:
        """The power fails: open files are gone, and so is what was not synced; with
        `keep_unsynced`, some of it was written by chance."""
        self.boot_count += 1
        self._locked.clear()
        self._root.crash(self._rng, keep=keep_unsynced)
        self._used_bytes = sum(len(node.content) for node in self._files(self._root))

    def kill(self) -> None:
        """The process dies and the machine goes on: nothing written is lost."""
        self.boot_count += 1
        self._locked.clear()

    def fail(self, fault: Fault) -> Fault:
        self.faults.append(fault)
        return fault

    def flip_bit(self, path: str, position: int, bit: int) -> None:
        """It rots: nobody wrote, and another byte is there, for good."""
        node = self._file(path)
        node.content[position] ^= 1 << bit
        if position < len(node.durable):
            node.durable[position] ^= 1 << bit

    def fill_up(self, *, free_bytes: int = 0) -> None:
        self._capacity_bytes = self._used_bytes + free_bytes

    def heal(self) -> None:
        """Nothing fails any more, and there is room again."""
        self.faults.clear()
        self._capacity_bytes = self._usual_capacity_bytes

    def replace(self) -> None:
        """By an empty one, while no process runs."""
        self.boot_count += 1
        self._locked.clear()
        self._root = _FolderNode()
        self._used_bytes = 0
        self.heal()

    def files(self, folder: str) -> list[str]:
        """The paths of all in it and below, without regard to faults."""
        found: list[str] = []
        for name, node in sorted(self._folder(folder).entries.items()):
            path = f"{folder}/{name}"
            found += self.files(path) if isinstance(node, _FolderNode) else [path]
        return found

    def evict(self, path: str) -> None:
        """Out of the page cache, until it is read."""
        self._file(path).is_cold = True

    # What files ask

    def check(self, operation: str, path: str) -> None:
        if self._pace is not None:
            self._pace.take_time(operation)
        for fault in self.faults:
            fault.check(operation, path)

    def claim(self, growth_bytes: int) -> int:
        """Takes room for a file that grows (or gives it back), and returns what is left then; when
        it is negative, only so much was taken as there was."""
        room = self._capacity_bytes - self._used_bytes - growth_bytes
        self._used_bytes += growth_bytes + min(0, room)
        return room

    def unlock(self, path: str) -> None:
        self._locked.discard(path)

    # Disk

    def open(self, path: str, *, create: bool = False) -> File:
        self.check("open", path)
        folder, name = self._parent(path)
        node = folder.entries.get(name)
        if node is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            node = _FileNode()
            node.modified_ms = self.now_ms()
            folder.change("", name, node)
        if isinstance(node, _FolderNode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        return SimulatedFile(self, path, node)

    def exists(self, path: str) -> bool:
        return self._find(path) is not None

    def list_folder(self, path: str) -> list[str]:
        self.check("list_folder", path)
        return sorted(self._folder(path).entries)

    def is_folder(self, path: str) -> bool:
        return isinstance(self._find(path), _FolderNode)

    def make_folders(self, path: str) -> None:
        self.check("make_folders", path)
        folder = self._root
        for name in _names(path):
            node = folder.entries.get(name)
            if node is None:
                node = _FolderNode()
                folder.change("", name, node)
            if not isinstance(node, _FolderNode):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
            folder = node

    def size(self, path: str) -> int:
        return len(self._file(path).content)

    def modified_ms(self, path: str) -> int:
        return self._file(path).modified_ms

    def rename(self, source: str, target: str) -> None:
        self.check("rename", source)
        folder, name = self._parent(source)
        target_folder, target_name = self._parent(target)
        node = folder.entries.get(name)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), source)
        self._give_back(target_folder.entries.get(target_name))
        if folder is target_folder:
            folder.change(name, target_name, node)
        else:
            target_folder.change("", target_name, node)
            folder.change(name, "", None)

    def remove(self, path: str) -> None:
        self.check("remove", path)
        node = self._find(path)
        if node is None:
            return
        if isinstance(node, _FolderNode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        self._give_back(node)
        folder, name = self._parent(path)
        folder.change(name, "", None)

    def remove_folder(self, path: str) -> None:
        self.check("remove_folder", path)
        if self._find(path) is None:
            return
        node = self._folder(path)
        for file in self._files(node):
            self._give_back(file)
        folder, name = self._parent(path)
        folder.change(name, "", None)

    def sync_folder(self, path: str) -> None:
        self.check("sync_folder", path)
        self._folder(path).sync()

    def read_file(self, path: str) -> bytes:
        self.check("read_file", path)
        return bytes(self._file(path).content)

    def replace_file(self, path: str, content: bytes, *, syncs_folder: bool = True) -> None:
        self.check("replace_file", path)
        temporary = path + ".tmp"
        file = self.open(temporary, create=True)
        file.truncate(0)
        file.write_at(0, (content,))
        file.sync()
        self.rename(temporary, path)
        if syncs_folder:
            self.sync_folder(path.rpartition("/")[0])

    def lock(self, path: str) -> Lock | None:
        self.open(path, create=True)
        if path in self._locked:
            return None
        self._locked.add(path)
        return _SimulatedLock(self, path)

    def total_and_free_bytes(self, path: str) -> tuple[int, int]:
        self.check("total_and_free_bytes", path)
        self._folder(path)
        return self._capacity_bytes, max(0, self._capacity_bytes - self._used_bytes)

    def device(self, path: str) -> int:
        self.check("device", path)
        self._folder(path)
        return 1

    # The tree

    def _find(self, path: str) -> _FileNode | _FolderNode | None:
        node: _FileNode | _FolderNode | None = self._root
        for name in _names(path):
            if not isinstance(node, _FolderNode):
                return None
            node = node.entries.get(name)
        return node

    def _parent(self, path: str) -> tuple[_FolderNode, str]:
        folder, _, name = path.rstrip("/").rpartition("/")
        return self._folder(folder), name

    def _folder(self, path: str) -> _FolderNode:
        node = self._find(path)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        if isinstance(node, _FileNode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        return node

    def _file(self, path: str) -> _FileNode:
        node = self._find(path)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        if isinstance(node, _FolderNode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        return node

    def _files(self, folder: _FolderNode) -> list[_FileNode]:
        found: list[_FileNode] = []
        for node in folder.entries.values():
            if isinstance(node, _FolderNode):
                found += self._files(node)
            else:
                found.append(node)
        return found

    def _give_back(self, node: _FileNode | _FolderNode | None) -> None:
        if isinstance(node, _FileNode):
            self._used_bytes -= len(node.content)


def _names(path: str) -> list[str]:
    return [name for name in path.split("/") if name]
