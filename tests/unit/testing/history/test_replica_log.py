from __future__ import annotations

import random

from ottla.kernel.ids import TopicPartition
from ottla.records.builder import ControlType, build_batch, build_end_txn_marker
from ottla.records.record import Record
from ottla.testing.disk import SimulatedDisk
from ottla.testing.history.events import Outcome
from ottla.testing.history.replica_log import read_replica_logs

FOLDER = "/data/t-1"


def test_batches_markers_and_watermarks_are_read() -> None:
    disk = SimulatedDisk(random.Random(1), now_ms=lambda: 0)
    for folder in (FOLDER, "/data/other-0", "/data/t-0.00ff-delete"):
        disk.make_folders(folder)
    first = build_batch([Record(0, 0, None, b"a"), Record(1, 0, None, b"b")], leader_epoch=3)
    marker = build_end_txn_marker(
        ControlType.ABORT,
        offset=2,
        timestamp=0,
        producer_id=7,
        producer_epoch=0,
        coordinator_epoch=0,
    )
    disk.replace_file(f"{FOLDER}/{0:020d}.log", bytes(first + marker))
    second = build_batch([Record(3, 0, None, b"c")])
    disk.replace_file(f"{FOLDER}/{3:020d}.log", bytes(second) + b"torn")
    disk.replace_file("/data/replication-offset-checkpoint", b"0\n1\nt 1 3\n")
    (log,) = read_replica_logs(disk, 5, "/data", "t")
    assert (log.broker_id, log.partition) == (5, TopicPartition("t", 1))
    assert (log.start_offset, log.high_watermark, log.end_offset) == (0, 3, 4)
    assert [batch.values for batch in log.batches] == [((0, "a"), (1, "b")), (), ((3, "c"),)]
    assert [batch.marker for batch in log.batches] == [None, Outcome.ABORTED, None]
    assert log.batches[0].header.partition_leader_epoch == 3


def test_what_lies_below_the_start_is_left_out() -> None:
    disk = SimulatedDisk(random.Random(1), now_ms=lambda: 0)
    disk.make_folders(FOLDER)
    batches = [build_batch([Record(offset, 0, None, b"x")]) for offset in range(2)]
    disk.replace_file(f"{FOLDER}/{0:020d}.log", bytes(batches[0] + batches[1]))
    disk.replace_file("/data/log-start-offset-checkpoint", b"0\n1\nt 1 1\n")
    (log,) = read_replica_logs(disk, 1, "/data", "t")
    assert log.start_offset == 1
    assert [batch.header.base_offset for batch in log.batches] == [1]


def test_a_log_without_a_checkpoint_starts_where_its_first_segment_does() -> None:
    disk = SimulatedDisk(random.Random(1), now_ms=lambda: 0)
    disk.make_folders(FOLDER)
    disk.replace_file(f"{FOLDER}/{3:020d}.log", bytes(build_batch([Record(3, 0, None, b"x")])))
    (log,) = read_replica_logs(disk, 1, "/data", "t")
    assert (log.start_offset, log.end_offset) == (3, 4)
