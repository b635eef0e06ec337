from __future__ import annotations

import random

from ottla.storage.clean_shutdown import take_clean_shutdown, write_clean_shutdown
from ottla.testing.disk import SimulatedDisk


def test_the_marker_counts_once() -> None:
    disk = SimulatedDisk(random.Random(0))
    disk.make_folders("/d")
    disk.sync_folder("/")
    assert not take_clean_shutdown(disk, "/d")
    write_clean_shutdown(disk, "/d", broker_epoch=12)
    assert disk.read_file("/d/.kafka_cleanshutdown") == b'{"version":0,"brokerEpoch":12}'
    assert take_clean_shutdown(disk, "/d")
    disk.crash(keep_unsynced=False)
    assert not take_clean_shutdown(disk, "/d")
