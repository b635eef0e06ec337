"""What every disk does, the system's and the simulated one."""

from __future__ import annotations

import errno
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.kernel.disk import Disk, FileSlice, SystemDisk
from ottla.testing.disk import SimulatedDisk


def _system(tmp_path: Path) -> tuple[Disk, str]:
    return SystemDisk(), str(tmp_path)


def _simulated(tmp_path: Path) -> tuple[Disk, str]:
    disk = SimulatedDisk(random.Random(0))
    disk.make_folders("/data")
    return disk, "/data"


@pytest.fixture(params=[_system, _simulated], ids=["system", "simulated"])
def disk_and_root(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Disk, str]:
    make: Callable[[Path], tuple[Disk, str]] = request.param
    return make(tmp_path)


@pytest.fixture
def disk(disk_and_root: tuple[Disk, str]) -> Disk:
    return disk_and_root[0]


@pytest.fixture
def root(disk_and_root: tuple[Disk, str]) -> str:
    return disk_and_root[1]


def test_open_finds_nothing_unless_asked_to_create(disk: Disk, root: str) -> None:
    with pytest.raises(FileNotFoundError):
        disk.open(f"{root}/a")
    assert not disk.exists(f"{root}/a")
    assert disk.open(f"{root}/a", create=True).size() == 0
    assert disk.exists(f"{root}/a")
    assert disk.open(f"{root}/a").path == f"{root}/a"


def test_open_in_a_folder_that_is_not_there(disk: Disk, root: str) -> None:
    with pytest.raises(FileNotFoundError):
        disk.open(f"{root}/none/a", create=True)


def test_create_keeps_what_is_there(disk: Disk, root: str) -> None:
    disk.open(f"{root}/a", create=True).write_at(0, [b"abc"])
    assert disk.open(f"{root}/a", create=True).read_at(0, 9) == b"abc"


def test_write_at_joins_buffers_of_any_kind(disk: Disk, root: str) -> None:
    file = disk.open(f"{root}/a", create=True)
    file.write_at(0, [b"one", bytearray(b"two"), memoryview(b"xthreex")[1:-1]])
    assert file.read_at(0, 100) == b"onetwothree"
    assert file.size() == disk.size(f"{root}/a") == 11


def test_write_at_replaces_and_extends(disk: Disk, root: str) -> None:
    file = disk.open(f"{root}/a", create=True)
    file.write_at(0, [b"abcdef"])
    file.write_at(4, [b"XYZ"])
    assert file.read_at(0, 100) == b"abcdXYZ"


def test_write_after_the_end_leaves_zeros(disk: Disk, root: str) -> None:
    file = disk.open(f"{root}/a", create=True)
    file.write_at(3, [b"x"])
    assert file.read_at(0, 100) == b"\0\0\0x"


def test_read_at_is_short_only_at_the_end(disk: Disk, root: str) -> None:
    file = disk.open(f"{root}/a", create=True)
    file.write_at(0, [b"abcdef"])
    assert file.read_at(2, 2) == b"cd"
    assert file.read_at(4, 10) == b"ef"
    assert file.read_at(6, 10) == b""
    assert file.read_at(60, 10) == b""


def test_truncate_shortens_and_lengthens(disk: Disk, root: str) -> None:
    file = disk.open(f"{root}/a", create=True)
    file.write_at(0, [b"abcdef"])
    file.truncate(2)
    assert file.read_at(0, 10) == b"ab"
    file.truncate(4)
    assert file.read_at(0, 10) == b"ab\0\0"


def test_two_openings_see_one_file(disk: Disk, root: str) -> None:
    one = disk.open(f"{root}/a", create=True)
    other = disk.open(f"{root}/a")
    one.write_at(0, [b"abc"])
    one.sync()
    assert other.read_at(0, 10) == b"abc"
    assert other.is_cached(0, 3)


def test_an_open_file_outlives_its_name(disk: Disk, root: str) -> None:
    file = disk.open(f"{root}/a", create=True)
    file.write_at(0, [b"abcdef"])
    piece = FileSlice(file, 1, 3)
    disk.rename(f"{root}/a", f"{root}/a.deleted")
    disk.remove(f"{root}/a.deleted")
    assert not disk.exists(f"{root}/a.deleted")
    assert piece.read() == b"bcd"


def test_a_closed_file_refuses(disk: Disk, root: str) -> None:
    file = disk.open(f"{root}/a", create=True)
    file.close()
    file.close()
    with pytest.raises(OSError, match=f"Errno {errno.EBADF}"):
        file.read_at(0, 1)


def test_rename_replaces_the_target(disk: Disk, root: str) -> None:
    disk.open(f"{root}/a", create=True).write_at(0, [b"new"])
    disk.open(f"{root}/b", create=True).write_at(0, [b"old"])
    disk.rename(f"{root}/a", f"{root}/b")
    assert disk.list_folder(root) == ["b"]
    assert disk.read_file(f"{root}/b") == b"new"


def test_rename_of_a_folder_takes_its_content(disk: Disk, root: str) -> None:
    disk.make_folders(f"{root}/t-0")
    disk.open(f"{root}/t-0/x", create=True).write_at(0, [b"1"])
    disk.rename(f"{root}/t-0", f"{root}/t-0.abc-delete")
    assert not disk.exists(f"{root}/t-0")
    assert disk.read_file(f"{root}/t-0.abc-delete/x") == b"1"


def test_rename_of_nothing(disk: Disk, root: str) -> None:
    with pytest.raises(FileNotFoundError):
        disk.rename(f"{root}/a", f"{root}/b")


def test_remove_is_content_when_it_is_gone(disk: Disk, root: str) -> None:
    disk.open(f"{root}/a", create=True)
    disk.remove(f"{root}/a")
    disk.remove(f"{root}/a")
    disk.remove_folder(f"{root}/none")
    assert disk.list_folder(root) == []


def test_remove_folder_takes_everything(disk: Disk, root: str) -> None:
    disk.make_folders(f"{root}/x/y")
    disk.open(f"{root}/x/y/z", create=True)
    disk.remove_folder(f"{root}/x")
    assert not disk.exists(f"{root}/x/y/z")
    assert not disk.is_folder(f"{root}/x")


def test_folders(disk: Disk, root: str) -> None:
    disk.make_folders(f"{root}/b/c")
    disk.make_folders(f"{root}/b/c")
    disk.open(f"{root}/a", create=True)
    assert disk.list_folder(root) == ["a", "b"]
    assert disk.is_folder(f"{root}/b/c")
    assert not disk.is_folder(f"{root}/a")
    assert not disk.is_folder(f"{root}/none")
    disk.sync_folder(root)
    with pytest.raises(FileNotFoundError):
        disk.list_folder(f"{root}/none")


def test_read_and_size_of_nothing(disk: Disk, root: str) -> None:
    for call in (disk.read_file, disk.size, disk.modified_ms):
        with pytest.raises(FileNotFoundError):
            call(f"{root}/a")


def test_replace_file_leaves_only_the_new_one(disk: Disk, root: str) -> None:
    disk.replace_file(f"{root}/a", b"one, and longer")
    disk.replace_file(f"{root}/a", b"two", syncs_folder=False)
    assert disk.read_file(f"{root}/a") == b"two"
    assert disk.list_folder(root) == ["a"]


def test_a_lock_is_held_by_one(disk: Disk, root: str) -> None:
    lock = disk.lock(f"{root}/.lock")
    assert lock is not None
    assert disk.lock(f"{root}/.lock") is None
    lock.release()
    again = disk.lock(f"{root}/.lock")
    assert again is not None
    again.release()


def test_what_is_on_one_disk_is_on_one_device(disk: Disk, root: str) -> None:
    disk.make_folders(f"{root}/a/b")
    assert disk.device(root) == disk.device(f"{root}/a/b")
    with pytest.raises(FileNotFoundError):
        disk.device(f"{root}/missing")


def test_total_and_free_bytes(disk: Disk, root: str) -> None:
    total, free = disk.total_and_free_bytes(root)
    assert 0 < free <= total
