"""`.ottla_run`: which run of the broker wrote to a log dir last, and on which machine.

What a killed process wrote is in the page cache, and so not lost, as long as the machine runs and
the disk is the same one. After a loss of power nobody knows. Not Kafka's; Kafka passes over it.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from ottla.kernel.disk import Disk
from ottla.storage.file_names import RUN_MARK


class RunMark(NamedTuple):
    broker_epoch: int
    boot_id: str
    device: int


def write_run_mark(disk: Disk, folder_path: str, mark: RunMark) -> None:
    content = {
        "version": 1,
        "brokerEpoch": mark.broker_epoch,
        "bootId": mark.boot_id,
        "device": mark.device,
    }
    disk.replace_file(f"{folder_path}/{RUN_MARK}", json.dumps(content).encode())


def read_run_mark(disk: Disk, folder_path: str) -> RunMark | None:
    """None where there is none that can be read: then it proves nothing."""
    path = f"{folder_path}/{RUN_MARK}"
    if not disk.exists(path):
        return None
    try:
        content = json.loads(disk.read_file(path))
        return RunMark(int(content["brokerEpoch"]), str(content["bootId"]), int(content["device"]))
    except (ValueError, TypeError, KeyError):
        return None
