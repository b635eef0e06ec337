"""What only real files show. What every disk must do is in tests/contract/disk."""

from __future__ import annotations

import errno
import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.kernel import disk as disk_module
from ottla.kernel.disk import FileSlice, SystemDisk, SystemFile


@pytest.fixture
def file(tmp_path: Path) -> SystemFile:
    return SystemFile(str(tmp_path / "file"), create=True)


def test_a_file_that_is_not_there_is_not_made_unless_asked(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        SystemDisk().open(str(tmp_path / "none"))
    assert os.listdir(tmp_path) == []


def test_a_write_that_the_system_cuts_short_goes_on(
    file: SystemFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pwritev(fd: int, buffers: list[bytes], offset: int) -> int:
        return os.pwrite(fd, b"".join(buffers)[:5], offset)

    whole_pwrite = os.pwrite

    def pwrite(fd: int, content: bytes, offset: int) -> int:
        return whole_pwrite(fd, bytes(content)[:3], offset)

    monkeypatch.setattr(os, "pwritev", pwritev)
    monkeypatch.setattr(os, "pwrite", pwrite)
    file.write_at(2, [b"hello, ", bytearray(b"wide "), memoryview(b"world")])
    assert file.read_at(2, 100) == b"hello, wide world"


def test_a_write_that_makes_no_progress_is_an_error(
    file: SystemFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "pwritev", lambda fd, buffers, offset: 0)
    monkeypatch.setattr(os, "pwrite", lambda fd, content, offset: 0)
    with pytest.raises(OSError, match="wrote nothing"):
        file.write_at(0, [b"x"])


def test_a_read_that_the_system_cuts_short_goes_on(
    file: SystemFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_at(0, [bytes(range(100))])
    whole_pread = os.pread

    def pread(fd: int, length: int, offset: int) -> bytes:
        return whole_pread(fd, min(length, 7), offset)

    monkeypatch.setattr(os, "pread", pread)
    assert file.read_at(10, 50) == bytes(range(10, 60))
    assert file.read_at(90, 50) == bytes(range(90, 100))


def test_a_slice_keeps_its_deleted_file_open(tmp_path: Path) -> None:
    file = SystemFile(str(tmp_path / "file"), create=True)
    file.write_at(0, [b"0123456789"])
    part = FileSlice(file, 3, 4)
    os.unlink(file.path)
    del file
    gc.collect()
    assert len(part) == 4
    assert part.read() == b"3456"


def test_a_file_that_nothing_refers_to_is_closed(tmp_path: Path) -> None:
    file = SystemFile(str(tmp_path / "file"), create=True)
    fd = file.fileno()
    del file
    gc.collect()
    with pytest.raises(OSError, match=os.strerror(errno.EBADF)):
        os.fstat(fd)


def test_closing_twice_does_not_close_a_stranger(tmp_path: Path) -> None:
    first = SystemFile(str(tmp_path / "first"), create=True)
    first.close()
    second = SystemFile(str(tmp_path / "second"), create=True)  # Gets the same number.
    first.close()
    second.write_at(0, [b"still open"])
    assert second.size() == 10


def test_files_do_not_leak_into_children(file: SystemFile) -> None:
    assert os.get_inheritable(file.fileno()) is False


def test_what_was_just_written_is_cached(file: SystemFile) -> None:
    file.write_at(0, [bytes(1024 * 1024)])
    assert file.is_cached(0, 1024 * 1024)


def test_a_cold_range_is_seen_wherever_its_cold_part_is(
    file: SystemFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    window_bytes = disk_module._PROBE_WINDOW_BYTES
    cold_from = 5 * window_bytes

    def preadv(fd: int, buffers: list[bytearray], offset: int, flags: int) -> int:
        if offset >= cold_from:
            raise BlockingIOError(errno.EAGAIN, "cold")
        return 1

    monkeypatch.setattr(disk_module, "_RWF_NOWAIT", 8)
    monkeypatch.setattr(os, "preadv", preadv)
    assert file.is_cached(0, cold_from)
    assert not file.is_cached(0, cold_from + 1)
    assert not file.is_cached(window_bytes // 2, 20 * window_bytes)


def test_where_the_system_cannot_tell_everything_is_cached(
    file: SystemFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    def preadv(fd: int, buffers: list[bytearray], offset: int, flags: int) -> int:
        raise OSError(errno.EOPNOTSUPP, "not supported")

    monkeypatch.setattr(disk_module, "_RWF_NOWAIT", 8)
    monkeypatch.setattr(os, "preadv", preadv)
    assert file.is_cached(0, 1)
    monkeypatch.setattr(disk_module, "_RWF_NOWAIT", None)
    assert file.is_cached(0, 1)


def test_a_failed_replacement_leaves_the_old_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = SystemDisk()
    path = str(tmp_path / "checkpoint")
    disk.replace_file(path, b"old")

    def fsync(fd: int) -> None:
        raise OSError(errno.EIO, "the disk is gone")

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(OSError, match="the disk is gone"):
        disk.replace_file(path, b"new")
    assert disk.read_file(path) == b"old"


def test_a_lock_goes_with_its_process(tmp_path: Path) -> None:
    disk = SystemDisk()
    path = str(tmp_path / ".lock")
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys; from ottla.kernel.disk import SystemDisk\n"
            "lock = SystemDisk().lock(sys.argv[1]); print(lock is not None, flush=True)\n"
            "sys.stdin.read()",
            path,
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"True\n"
    assert disk.lock(path) is None
    holder.kill()
    holder.communicate()
    lock = disk.lock(path)
    assert lock is not None
    lock.release()


def test_space_is_in_bytes(tmp_path: Path) -> None:
    total_bytes, free_bytes = SystemDisk().total_and_free_bytes(str(tmp_path))
    stat = os.statvfs(tmp_path)
    assert total_bytes == stat.f_blocks * stat.f_frsize
    assert 0 < free_bytes <= total_bytes
