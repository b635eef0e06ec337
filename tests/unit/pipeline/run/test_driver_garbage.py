from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from ottla.pipeline.run.driver_garbage import DriverGarbage, freeze_imports


class Ring:
    """As frames are: only a collection frees it."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def no_other_collections() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def dropped_ring() -> weakref.ref[Ring]:
    return weakref.ref(Ring())


def test_what_was_dropped_goes_within_ten_seconds() -> None:
    now_s = 100.0
    garbage = DriverGarbage(lambda: now_s)
    ring = dropped_ring()
    now_s = 109.9
    garbage.collect_if_due()
    assert ring() is not None
    now_s = 110.0
    garbage.collect_if_due()
    assert ring() is None
    ring = dropped_ring()
    now_s = 119.9
    garbage.collect_if_due()
    assert ring() is not None
    now_s = 120.0
    garbage.collect_if_due()
    assert ring() is None


def test_garbage_is_not_frozen(freezes: list[int]) -> None:
    ring = dropped_ring()
    freeze_imports()
    assert ring() is None
    assert freezes == [1]
