"""The seam to files. Paths are text; every failure is an `OSError`, as the system gave it."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Sequence
from typing import Protocol

Buffer = bytes | bytearray | memoryview

# A probe reads one byte of each window of this size; the kernel reads ahead in such windows.
_PROBE_WINDOW_BYTES = 128 * 1024


class File(Protocol):
    """An open file. It closes when nothing refers to it any more, so that a slice of it that
    is still queued on a connection keeps it open after its segment was let go or deleted."""

    @property
    def path(self) -> str: ...

    def fileno(self) -> int:
        """For `sendfile`. A simulated file has none and raises."""
        ...

    def size(self) -> int: ...

    def read_at(self, offset: int, length: int) -> bytes:
        """Fewer bytes than asked for only at the end of the file."""
        ...

    def write_at(self, offset: int, buffers: Sequence[Buffer]) -> None:
        """Writes all of it, or raises; then what lies from `offset` on is undefined."""
        ...

    def truncate(self, size: int) -> None: ...

    def sync(self) -> None: ...

    def is_cached(self, offset: int, length: int) -> bool:
        """Whether reading this range would not wait for the disk. A guess, cheap and good
        enough: it samples."""
        ...

    def close(self) -> None: ...


class FileSlice:
    """Bytes of a file that go out as they lie there, without passing through Python."""

    __slots__ = ("file", "length", "offset")

    def __init__(self, file: File, offset: int, length: int) -> None:
        self.file = file
        self.offset = offset
        self.length = length

    def __len__(self) -> int:
        return self.length

    def read(self) -> bytes:
        return self.file.read_at(self.offset, self.length)


class Lock(Protocol):
    def release(self) -> None: ...


class Disk(Protocol):
    def open(self, path: str, *, create: bool = False) -> File:
        """For reading and writing."""
        ...

    def exists(self, path: str) -> bool: ...

    def list_folder(self, path: str) -> list[str]:
        """Names, sorted."""
        ...

    def is_folder(self, path: str) -> bool: ...

    def make_folders(self, path: str) -> None: ...

    def size(self, path: str) -> int: ...

    def modified_ms(self, path: str) -> int: ...

    def rename(self, source: str, target: str) -> None: ...

    def remove(self, path: str) -> None:
        """No error when it is gone already."""
        ...

    def remove_folder(self, path: str) -> None:
        """With all that is in it. No error when it is gone already."""
        ...

    def sync_folder(self, path: str) -> None: ...

    def read_file(self, path: str) -> bytes: ...

    def replace_file(self, path: str, content: bytes, *, syncs_folder: bool = True) -> None:
        """Whole or not at all, also over a crash: write, fsync, rename, fsync the folder. The last
        may be left to whoever has more to do there."""
        ...

    def lock(self, path: str) -> Lock | None:
        """None when another process holds it. A lock goes with its process."""
        ...

    def total_and_free_bytes(self, path: str) -> tuple[int, int]: ...

    def device(self, path: str) -> int:
        """A number of the device that it is on, while the machine runs."""
        ...


class SystemFile:
    __slots__ = ("_fd", "path")

    def __init__(self, path: str, *, create: bool) -> None:
        self._fd = -1
        self.path = path
        self._fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0), 0o644)

    def fileno(self) -> int:
        return self._fd

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def read_at(self, offset: int, length: int) -> bytes:
        content = os.pread(self._fd, length, offset)
        if len(content) == length or not content:
            return content
        # Short of what was asked: the end of the file, or a signal. Ask until it is the end.
        chunks = [content]
        done = len(content)
        while done < length and (chunk := os.pread(self._fd, length - done, offset + done)):
            chunks.append(chunk)
            done += len(chunk)
        return b"".join(chunks)

    def write_at(self, offset: int, buffers: Sequence[Buffer]) -> None:
        if len(buffers) == 1:
            # Every append; and a `pwritev` of one buffer takes a fifth longer.
            total = len(buffers[0])
            written = os.pwrite(self._fd, buffers[0], offset)
        else:
            total = sum(map(len, buffers))
            written = os.pwritev(self._fd, buffers, offset)
        if written == total:
            return
        rest = memoryview(b"".join(buffers))[written:]
        while rest:
            step = os.pwrite(self._fd, rest, offset + written)
            if step == 0:
                raise OSError(errno.EIO, "wrote nothing", self.path)
            written += step
            rest = rest[step:]

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)

    def sync(self) -> None:
        os.fsync(self._fd)

    def is_cached(self, offset: int, length: int) -> bool:
        return _is_cached(self._fd, offset, length)

    def close(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)

    def __del__(self) -> None:
        self.close()


_RWF_NOWAIT = getattr(os, "RWF_NOWAIT", None)


def _is_cached(fd: int, offset: int, length: int) -> bool:
    if _RWF_NOWAIT is None:
        return True  # macOS cannot tell; there the loop waits for its SSD.
    probe = [bytearray(1)]
    last = offset + length - 1
    position = offset
    while True:
        try:
            os.preadv(fd, probe, position, _RWF_NOWAIT)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno == errno.EOPNOTSUPP:
                return True  # This file system cannot tell (tmpfs of old, some FUSE).
            raise
        if position >= last:
            return True
        position = min(position + _PROBE_WINDOW_BYTES, last)


class FileLock:
    def __init__(self, fd: int) -> None:
        self._fd = fd

    def release(self) -> None:
        os.close(self._fd)


class SystemDisk:
    def open(self, path: str, *, create: bool = False) -> File:
        return SystemFile(path, create=create)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def list_folder(self, path: str) -> list[str]:
        return sorted(os.listdir(path))

    def is_folder(self, path: str) -> bool:
        return os.path.isdir(path)

    def make_folders(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def size(self, path: str) -> int:
        return os.stat(path).st_size

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def rename(self, source: str, target: str) -> None:
        os.replace(source, target)

    def remove(self, path: str) -> None:
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass

    def remove_folder(self, path: str) -> None:
        import shutil  # With its compressors, 3 ms that most starts need not wait for.

        try:
            shutil.rmtree(path)
        except FileNotFoundError:
            pass

    def sync_folder(self, path: str) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def read_file(self, path: str) -> bytes:
        with open(path, "rb") as file:
            return file.read()

    def replace_file(self, path: str, content: bytes, *, syncs_folder: bool = True) -> None:
        temporary = path + ".tmp"
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        if syncs_folder:
            self.sync_folder(os.path.dirname(path))

    def lock(self, path: str) -> Lock | None:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return None
        return FileLock(fd)

    def total_and_free_bytes(self, path: str) -> tuple[int, int]:
        stat = os.statvfs(path)
        return stat.f_blocks * stat.f_frsize, stat.f_bavail * stat.f_frsize

    def device(self, path: str) -> int:
        return os.stat(path).st_dev
