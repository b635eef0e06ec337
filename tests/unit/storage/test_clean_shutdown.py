from __future__ import annotations

import random

import pytest

from ottla.storage.clean_shutdown import (
    UNKNOWN_EPOCH,
    take_clean_shutdown,
    write_clean_shutdown,
)
from ottla.testing.disk import SimulatedDisk


def test_the_marker_counts_once() -> None:
    disk = SimulatedDisk(random.Random(0))
    disk.make_folders("/d")
    disk.sync_folder("/")
    assert take_clean_shutdown(disk, "/d") is None
    write_clean_shutdown(disk, "/d", broker_epoch=12)
    assert disk.read_file("/d/.kafka_cleanshutdown") == b'{"version":0,"brokerEpoch":12}'
    assert take_clean_shutdown(disk, "/d") == 12
    disk.crash(keep_unsynced=False)
    assert take_clean_shutdown(disk, "/d") is None


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b'{"brokerEpoch":"a"}'])
def test_a_marker_that_says_nothing_counts_too(content: bytes) -> None:
    """As Kafka's of old, which were empty."""
    disk = SimulatedDisk(random.Random(0))
    disk.make_folders("/d")
    disk.replace_file("/d/.kafka_cleanshutdown", content)
    assert take_clean_shutdown(disk, "/d") == UNKNOWN_EPOCH
