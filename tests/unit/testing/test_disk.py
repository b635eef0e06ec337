"""What only the simulated disk does: lose and refuse."""

from __future__ import annotations

import errno
import random

import pytest

from ottla.testing.disk import Fault, SimulatedDisk


def _disk(seed: int = 0) -> SimulatedDisk:
    disk = SimulatedDisk(random.Random(seed))
    disk.make_folders("/d")
    disk.sync_folder("/")
    return disk


def test_a_crash_forgets_bytes_that_were_not_synced() -> None:
    disk = _disk()
    file = disk.open("/d/a", create=True)
    file.write_at(0, [b"synced"])
    file.sync()
    disk.sync_folder("/d")
    file.write_at(6, [b" and lost"])
    assert disk.read_file("/d/a") == b"synced and lost"
    disk.crash(keep_unsynced=False)
    assert disk.read_file("/d/a") == b"synced"


def test_a_crash_forgets_names_that_were_not_synced() -> None:
    disk = _disk()
    disk.open("/d/a", create=True).sync()
    disk.crash(keep_unsynced=False)
    assert disk.list_folder("/d") == []


def test_a_crash_undoes_a_rename_and_a_removal_that_were_not_synced() -> None:
    disk = _disk()
    disk.replace_file("/d/a", b"a")
    disk.replace_file("/d/b", b"b")
    disk.rename("/d/a", "/d/c")
    disk.remove("/d/b")
    disk.crash(keep_unsynced=False)
    assert disk.list_folder("/d") == ["a", "b"]


def test_what_a_crash_keeps_is_a_prefix_and_may_be_torn() -> None:
    outcomes = set()
    for seed in range(200):
        disk = _disk(seed)
        file = disk.open("/d/a", create=True)
        disk.sync_folder("/d")
        file.write_at(0, [b"one"])
        file.write_at(3, [b"two"])
        disk.crash()
        content = disk.read_file("/d/a")
        written = content.rstrip(b"\0")
        assert b"onetwo".startswith(written)
        assert len(content) in (len(written), 3, 6)
        outcomes.add((len(written), len(content)))
    assert outcomes >= {(length, length) for length in range(7)}
    assert outcomes >= {(0, 3), (2, 3), (3, 6), (5, 6)}


def test_the_same_seed_crashes_the_same_way() -> None:
    def outcome() -> bytes:
        disk = _disk(7)
        file = disk.open("/d/a", create=True)
        disk.sync_folder("/d")
        for number in range(50):
            file.write_at(number * 3, [b"abc"])
        disk.crash()
        return disk.read_file("/d/a")

    assert outcome() == outcome()


def test_replace_file_survives_a_crash_whole() -> None:
    disk = _disk()
    disk.replace_file("/d/a", b"old")
    disk.replace_file("/d/a", b"new")
    disk.crash()
    assert disk.read_file("/d/a") == b"new"
    assert disk.list_folder("/d") == ["a"]


def test_files_and_locks_of_before_the_crash_are_gone() -> None:
    disk = _disk()
    file = disk.open("/d/a", create=True)
    assert disk.lock("/d/.lock") is not None
    disk.kill()
    assert disk.lock("/d/.lock") is not None
    with pytest.raises(OSError, match="crash"):
        file.write_at(0, [b"x"])
    assert disk.read_file("/d/a") == b""


def test_a_full_disk_takes_what_fits() -> None:
    disk = _disk()
    file = disk.open("/d/a", create=True)
    file.write_at(0, [b"12345"])
    disk.fill_up(free_bytes=2)
    with pytest.raises(OSError, match="No space") as caught:
        file.write_at(5, [b"67890"])
    assert caught.value.errno == errno.ENOSPC
    assert file.read_at(0, 10) == b"1234567"
    file.truncate(5)
    file.write_at(5, [b"67"])
    assert disk.total_and_free_bytes("/d")[1] == 0


def test_a_fault_hits_what_it_names_and_nothing_else() -> None:
    disk = _disk()
    fault = disk.fail(Fault("write_at", "a", skip=1, count=1))
    a, b = disk.open("/d/a", create=True), disk.open("/d/b", create=True)
    a.write_at(0, [b"1"])
    b.write_at(0, [b"1"])
    with pytest.raises(OSError, match="Input/output"):
        a.write_at(1, [b"2"])
    a.write_at(1, [b"3"])
    assert a.read_at(0, 9) == b"13"
    assert fault.hit_count == 1


def test_after_a_failed_sync_the_bytes_never_become_durable() -> None:
    disk = _disk()
    file = disk.open("/d/a", create=True)
    disk.sync_folder("/d")
    file.write_at(0, [b"lost"])
    disk.fail(Fault("sync", "a", count=1))
    with pytest.raises(OSError, match="Input/output"):
        file.sync()
    file.sync()
    assert file.read_at(0, 9) == b"lost"
    disk.crash()
    assert disk.read_file("/d/a") == b""


def test_an_evicted_file_is_cold_until_it_is_read() -> None:
    disk = _disk()
    file = disk.open("/d/a", create=True)
    file.write_at(0, [b"x"])
    disk.evict("/d/a")
    assert not file.is_cached(0, 1)
    file.read_at(0, 1)
    assert file.is_cached(0, 1)


def test_a_simulated_file_has_no_descriptor() -> None:
    with pytest.raises(OSError, match="descriptor"):
        _disk().open("/d/a", create=True).fileno()


def test_a_flipped_bit_is_there_for_good() -> None:
    disk = SimulatedDisk(random.Random(0))
    file = disk.open("/file", create=True)
    file.write_at(0, [b"ab"])
    file.sync()
    disk.sync_folder("/")
    file.write_at(2, [b"c"])
    disk.flip_bit("/file", 1, 0)
    assert file.read_at(0, 3) == b"acc"
    disk.crash(keep_unsynced=False)
    assert disk.read_file("/file") == b"ac"


def test_whoever_listens_hears_of_writes_that_have_happened() -> None:
    disk = _disk()
    written: list[str] = []
    disk.on_write = written.append
    file = disk.open("/d/a", create=True)
    file.write_at(0, [b"a"])
    disk.fail(Fault("write_at"))
    with pytest.raises(OSError, match="Input/output"):
        file.write_at(1, [b"b"])
    assert written == ["/d/a"]


def test_what_is_healed_works_and_has_room() -> None:
    disk = _disk()
    disk.fail(Fault("write_at"))
    disk.fill_up()
    disk.heal()
    disk.open("/d/a", create=True).write_at(0, [b"content"])
    disk.make_folders("/d/e")
    disk.open("/d/e/b", create=True)
    assert disk.files("/d") == ["/d/a", "/d/e/b"]


def test_a_replaced_disk_is_empty_and_its_files_are_closed() -> None:
    disk = _disk()
    file = disk.open("/d/a", create=True)
    disk.replace()
    assert not disk.exists("/d")
    with pytest.raises(OSError, match="closed"):
        file.size()
