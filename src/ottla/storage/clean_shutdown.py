"""`.kafka_cleanshutdown`: the last thing that a clean stop leaves in a log dir."""

from __future__ import annotations

import json

from ottla.kernel.disk import Disk
from ottla.storage.file_names import CLEAN_SHUTDOWN

VERSION = 0
UNKNOWN_EPOCH = -1


def write_clean_shutdown(disk: Disk, folder_path: str, *, broker_epoch: int) -> None:
    content = json.dumps({"version": VERSION, "brokerEpoch": broker_epoch}, separators=(",", ":"))
    disk.replace_file(f"{folder_path}/{CLEAN_SHUTDOWN}", content.encode())


def take_clean_shutdown(disk: Disk, folder_path: str) -> int | None:
    """The epoch of the broker whose stop was clean, `UNKNOWN_EPOCH` where that is not said; None if
    the last stop was not. The marker goes at once: if loading crashes, the next start must not take
    that for a clean stop (KAFKA-10471)."""
    path = f"{folder_path}/{CLEAN_SHUTDOWN}"
    if not disk.exists(path):
        return None
    try:
        broker_epoch = int(json.loads(disk.read_file(path))["brokerEpoch"])
    except (ValueError, TypeError, KeyError):
        broker_epoch = UNKNOWN_EPOCH
    disk.remove(path)
    disk.sync_folder(folder_path)
    return broker_epoch
