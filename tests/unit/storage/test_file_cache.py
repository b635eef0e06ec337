from __future__ import annotations

import random

from ottla.storage.file_cache import FileCache
from ottla.testing.disk import SimulatedDisk


def _cache(file_count_max: int) -> tuple[SimulatedDisk, FileCache]:
    disk = SimulatedDisk(random.Random(0))
    for name in "abc":
        disk.open(f"/{name}", create=True)
    return disk, FileCache(disk, file_count_max=file_count_max)


def test_a_file_is_opened_once() -> None:
    _, cache = _cache(2)
    assert cache.open("/a") is cache.open("/a")


def test_the_least_recently_used_falls_out() -> None:
    _, cache = _cache(2)
    a, b = cache.open("/a"), cache.open("/b")
    assert cache.open("/a") is a
    cache.open("/c")
    assert cache.open("/a") is a
    assert cache.open("/b") is not b


def test_a_file_opened_elsewhere_can_be_kept() -> None:
    disk, cache = _cache(2)
    file = disk.open("/a")
    cache.keep(file)
    assert cache.open("/a") is file


def test_after_a_rename_the_path_means_another_file() -> None:
    disk, cache = _cache(2)
    old = cache.open("/a")
    disk.rename("/b", "/a")
    cache.forget("/a")
    cache.forget("/never-opened")
    assert cache.open("/a") is not old
