"""What a start makes of the files that it finds."""

from __future__ import annotations

import zlib

import pytest

from ottla.config.topic import TopicConfig
from ottla.kernel.eager import begin
from ottla.kernel.ids import new_topic_id
from ottla.records.builder import ControlType
from ottla.storage.log import Log
from ottla.storage.transaction_index import ENTRY_BYTES
from ottla.testing.disk import Fault
from tests.unit.storage.support import PARTITION, Machine, aborted_in, offsets_in

FIRST = "/data/t-0/00000000000000000000"


def _rolled(*, clean: bool) -> Machine:
    """Four segments of two batches of three records by one producer; stopped."""
    machine = Machine(TopicConfig(segment_bytes=200, index_interval_bytes=0))
    log = machine.log()
    for number in range(8):
        machine.append(log, count=3, producer_id=4, epoch=1, sequence=number * 3)
        machine.wait(0.01)
    assert len(log.segments) == 4
    machine.wait()
    if clean:
        machine.stop()
    else:
        machine.disk.kill()
    return machine


@pytest.mark.parametrize("clean", [True, False])
def test_everything_is_there_again(clean: bool) -> None:
    machine = _rolled(clean=clean)
    machine.start()
    log = machine.log()
    assert offsets_in(log) == list(range(24))
    assert len(log.segments) == 4
    assert log.leader_epochs.latest_epoch == 0
    assert machine.append(log, count=3, producer_id=4, epoch=1, sequence=21).is_duplicate
    assert machine.append(log, count=1, producer_id=4, epoch=1, sequence=24).first_offset == 24


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("suffix", ["index", "timeindex"])
@pytest.mark.parametrize("segment", [0, 18])
@pytest.mark.parametrize("damage", ["missing", "odd", "garbage"])
def test_a_damaged_index_is_built_anew(clean: bool, suffix: str, segment: int, damage: str) -> None:
    path = f"/data/t-0/{segment:020d}.{suffix}"
    sound = _rolled(clean=clean)
    sound.start()
    expected = sound.disk.read_file(path)
    assert expected
    machine = _rolled(clean=clean)
    content = machine.disk.read_file(path)
    if damage == "missing":
        machine.disk.remove(path)
    elif damage == "odd":
        machine.disk.open(path).write_at(len(content), [b"\0" * 5])
    else:
        if segment == 0:
            return  # A closed segment's index is only looked at from outside.
        machine.disk.open(path).write_at(0, [b"\xff" * len(content)])
    machine.start()
    log = machine.log()
    assert offsets_in(log) == list(range(24))
    found = machine.run(log.offset_for_timestamp(0))
    assert found is not None
    assert found.offset == 0
    assert machine.disk.read_file(path) == expected


@pytest.mark.parametrize("tail", [b"\0" * 300, b"\xff" * 10, b"torn"])
def test_a_torn_tail_is_cut_off(tail: bytes) -> None:
    machine = _rolled(clean=False)
    path = "/data/t-0/00000000000000000018.log"
    size_bytes = machine.disk.size(path)
    machine.disk.open(path).write_at(size_bytes, [tail])
    machine.start()
    assert machine.disk.size(path) == size_bytes
    assert offsets_in(machine.log()) == list(range(24))


def test_a_tail_that_was_cut_off_does_not_come_back() -> None:
    machine = _rolled(clean=False)
    path = "/data/t-0/00000000000000000018.log"
    size_bytes = machine.disk.size(path)
    tail = machine.disk.open(path)
    tail.write_at(size_bytes, [b"torn"])
    tail.sync()
    machine.disk.replace_file("/data/recovery-point-offset-checkpoint", b"0\n1\nt 0 24\n")
    machine.start()
    machine.disk.crash(keep_unsynced=False)
    assert machine.disk.size(path) == size_bytes


def test_what_is_shown_after_a_kill_outlives_the_power_where_every_batch_is_synced() -> None:
    machine = Machine(TopicConfig(flush_messages=1))
    machine.append(machine.log())
    machine.wait()
    machine.append(machine.log())  # A kill comes before its fsync.
    machine.workers.die()
    machine.restart(clean=False)
    assert machine.log().log_end_offset == 2
    machine.disk.crash(keep_unsynced=False)
    machine.start()
    assert machine.log().log_end_offset == 2


def test_a_topic_id_that_a_kill_left_unsynced_outlives_the_power() -> None:
    machine = Machine(TopicConfig(flush_messages=1))
    topic_id = new_topic_id(machine.rng)
    machine.manager.create_log(PARTITION, topic_id, machine.config)
    machine.workers.die()
    machine.restart(clean=False)
    log = machine.log()
    assert log.topic_id == topic_id
    machine.append(log)
    machine.run(_flushed(log))
    machine.disk.crash(keep_unsynced=False)
    machine.start()
    assert (machine.log().topic_id, machine.log().log_end_offset) == (topic_id, 1)


async def _flushed(log: Log) -> None:
    await log.flush()


def test_an_index_that_was_built_anew_below_the_recovery_point_is_on_the_disk() -> None:
    """Were the segment rolled and the broker killed now, the index would be believed."""
    machine = _with_transactions(clean=False)
    machine.disk.replace_file("/data/recovery-point-offset-checkpoint", b"0\n1\nt 0 9\n")
    path = "/data/t-0/00000000000000000006.txnindex"
    expected = machine.disk.read_file(path)
    machine.disk.open(path).truncate(0)
    machine.disk.open(path).sync()
    machine.start()
    machine.disk.crash(keep_unsynced=False)
    assert machine.disk.read_file(path) == expected


def test_a_flipped_bit_ends_the_log_there() -> None:
    machine = _rolled(clean=False)
    machine.disk.remove("/data/recovery-point-offset-checkpoint")
    file = machine.disk.open("/data/t-0/00000000000000000006.log")
    byte = file.read_at(file.size() - 3, 1)[0]
    file.write_at(file.size() - 3, [bytes([byte ^ 4])])
    machine.start()
    log = machine.log()
    assert offsets_in(log) == list(range(9))
    assert log.producer_state.producers[4].next_sequence == 9
    assert machine.append(log, count=1, producer_id=4, epoch=1, sequence=9).first_offset == 9


def test_what_lies_below_the_recovery_point_is_not_read() -> None:
    machine = _rolled(clean=False)
    machine.disk.replace_file("/data/recovery-point-offset-checkpoint", b"0\n1\nt 0 18\n")
    file = machine.disk.open(f"{FIRST}.log")
    file.write_at(70, [b"\xff"])
    machine.start()
    assert machine.log().log_end_offset == 24


def test_a_segment_that_lost_its_end_takes_the_following_with_it() -> None:
    """Files reach the disk in any order: the cut may fall between two batches."""
    machine = _rolled(clean=False)
    file = machine.disk.open("/data/t-0/00000000000000000006.log")
    file.truncate(file.size() // 2)
    machine.start()
    assert offsets_in(machine.log()) == list(range(9))


def test_a_gap_between_the_segments_of_a_compacted_topic_is_no_loss() -> None:
    machine = _rolled(clean=False)
    file = machine.disk.open("/data/t-0/00000000000000000006.log")
    file.truncate(file.size() // 2)
    machine.config = TopicConfig(cleanup_policy=("compact",))
    machine.start()
    assert machine.log().log_end_offset == 24


@pytest.mark.parametrize("clean", [True, False])
def test_a_damaged_snapshot_is_dropped(clean: bool) -> None:
    machine = _rolled(clean=clean)
    for name in machine.names():
        if name.endswith(".snapshot"):
            machine.disk.open(f"/data/t-0/{name}").write_at(3, [b"\xff"])
    machine.start()
    log = machine.log()
    assert log.producer_state.producers[4].next_sequence == 24


@pytest.mark.parametrize("clean", [True, False])
def test_damaged_leader_epochs_are_read_from_the_batches(clean: bool) -> None:
    machine = _rolled(clean=clean)
    machine.disk.replace_file("/data/t-0/leader-epoch-checkpoint", b"garbage\n1\n")
    machine.start()
    assert machine.log().leader_epochs.entries == [(0, 0)]


def test_epochs_that_recovery_found_are_written_down() -> None:
    """Else the next crash, with a recovery point beyond them, would lose them."""
    machine = Machine()
    log = machine.log()
    machine.wait()
    machine.append(log, leader_epoch=1)
    machine.append(log, leader_epoch=4)
    machine.disk.kill()
    assert "leader-epoch-checkpoint" not in machine.names()
    machine.start()
    assert machine.disk.read_file("/data/t-0/leader-epoch-checkpoint") == b"0\n2\n1 0\n4 1\n"


def test_a_snapshot_that_a_crash_forestalled_is_taken_by_recovery() -> None:
    machine = Machine()
    log = machine.log()
    machine.append(log, count=2, producer_id=4, epoch=0, sequence=0)
    log.roll()
    machine.disk.kill()
    assert "00000000000000000002.snapshot" not in machine.names()
    machine.start()
    assert "00000000000000000002.snapshot" in machine.names()
    machine.log().delete_segments(1)
    machine.wait()
    machine.restart(clean=False)
    again = machine.append(machine.log(), count=2, producer_id=4, epoch=0, sequence=0)
    assert again.is_duplicate


def test_what_recovery_dropped_does_not_come_back() -> None:
    machine = _rolled(clean=False)
    file = machine.disk.open("/data/t-0/00000000000000000006.log")
    file.truncate(file.size() // 2)
    machine.start()
    assert machine.log().log_end_offset == 9
    machine.disk.crash(keep_unsynced=False)
    assert not [name for name in machine.names() if name.startswith("00000000000000000012.log")]


def test_a_clean_start_without_snapshots_does_not_look_for_producers() -> None:
    """Kafka's rule for a broker that was upgraded."""
    machine = _rolled(clean=True)
    for name in machine.names():
        if name.endswith(".snapshot"):
            machine.disk.remove(f"/data/t-0/{name}")
    machine.start()
    assert machine.log().producer_state.producers == {}


def test_expired_producers_stay_forgotten() -> None:
    machine = _rolled(clean=True)
    machine.wait(86_400)
    machine.start()
    assert machine.log().producer_state.producers == {}


def test_an_orphaned_index_is_removed() -> None:
    machine = _rolled(clean=True)
    machine.disk.open("/data/t-0/00000000000000000099.index", create=True)
    machine.start()
    assert "00000000000000000099.index" not in machine.names()


def test_a_start_beyond_the_end_empties_the_log() -> None:
    machine = _rolled(clean=True)
    machine.disk.replace_file("/data/log-start-offset-checkpoint", b"0\n1\nt 0 100\n")
    machine.start()
    log = machine.log()
    assert (log.log_start_offset, log.log_end_offset) == (100, 100)
    assert machine.append(log).first_offset == 100


def test_records_of_an_old_format_are_refused_not_cut(caplog: pytest.LogCaptureFixture) -> None:
    machine = _rolled(clean=False)
    message = (
        b"\x01\x00" + bytes(8) + (0xFFFFFFFF).to_bytes(4, "big") + (1).to_bytes(4, "big") + b"v"
    )
    content = zlib.crc32(message).to_bytes(4, "big") + message
    old = bytes(8) + len(content).to_bytes(4, "big") + content
    path = "/data/t-0/00000000000000000018.log"
    size_bytes = machine.disk.size(path)
    machine.disk.open(path).write_at(size_bytes, [old + bytes(40)])
    machine.start()
    assert "holds messages of format 1" in caplog.text
    assert machine.manager.get(PARTITION) is None
    assert machine.disk.size(path) > size_bytes


# Transactions

ABORTED = [(1, 0, 2, 1), (1, 3, 5, 1), (1, 6, 8, 1)]
"""In a segment each; that of producer 2 begins in the first and stays open."""


def _with_transactions(*, clean: bool) -> Machine:
    machine = Machine(TopicConfig(index_interval_bytes=0))
    log = machine.log()
    for number in range(3):
        for producer_id in (1, 2):
            machine.append(
                log, producer_id=producer_id, epoch=0, sequence=number, is_transactional=True
            )
        machine.end_transaction(log, ControlType.ABORT, producer_id=1)
        if number < 2:
            log.roll()
    assert (log.first_unstable_offset, aborted_in(log)) == (1, ABORTED)
    machine.wait()
    if clean:
        machine.stop()
    else:
        machine.disk.kill()
    return machine


def _assert_known(machine: Machine) -> None:
    machine.start()
    log = machine.log()
    log.producer_state.transactions.replicated_to(log.log_end_offset)
    assert log.first_unstable_offset == 1
    assert aborted_in(log) == ABORTED
    assert log.producer_state.has_open_transaction(2, 0)
    # And it goes on.
    machine.append(log, producer_id=2, epoch=0, sequence=3, is_transactional=True)
    machine.end_transaction(log, ControlType.ABORT, producer_id=2)
    assert log.first_unstable_offset is None
    assert aborted_in(log) == [*ABORTED, (2, 1, 10, 11)]


@pytest.mark.parametrize("clean", [True, False])
def test_transactions_are_known_again(clean: bool) -> None:
    _assert_known(_with_transactions(clean=clean))


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("base_offset", [3, 6])
@pytest.mark.parametrize("damage", ["torn", "garbage", "of another segment"])
def test_a_damaged_transaction_index_is_built_anew(
    clean: bool, base_offset: int, damage: str
) -> None:
    machine = _with_transactions(clean=clean)
    path = f"/data/t-0/{base_offset:020}.txnindex"
    file = machine.disk.open(path)
    if damage == "torn":
        file.truncate(ENTRY_BYTES - 1)
    elif damage == "garbage":
        file.write_at(0, [b"\xff" * ENTRY_BYTES])
    else:
        file.write_at(0, [machine.disk.read_file(f"{FIRST}.txnindex")])
    _assert_known(machine)


def test_a_damaged_offset_index_does_not_cost_the_transaction_index() -> None:
    machine = _with_transactions(clean=True)
    machine.disk.remove("/data/t-0/00000000000000000003.index")
    machine.disk.remove("/data/t-0/00000000000000000003.txnindex")
    _assert_known(machine)


def test_an_abort_that_did_not_reach_its_index_is_found_in_the_log() -> None:
    """The kill came between the write of the marker and that of the index."""
    machine = Machine()
    log = machine.log()
    machine.append(log, producer_id=1, epoch=0, sequence=0, is_transactional=True)
    machine.disk.fail(Fault("write_at", ".txnindex", count=1))
    with pytest.raises(Exception, match="writing the index"):
        machine.end_transaction(log, ControlType.ABORT, producer_id=1)
    machine.disk.kill()
    machine.start()
    log = machine.log()
    log.producer_state.transactions.replicated_to(log.log_end_offset)
    assert (log.log_end_offset, log.first_unstable_offset) == (2, None)
    assert aborted_in(log) == [(1, 0, 1, 2)]


def test_the_index_of_a_closed_segment_is_on_the_disk_before_the_recovery_point_passes_it() -> None:
    machine = Machine()
    log = machine.log()
    machine.append(log, producer_id=1, epoch=0, sequence=0, is_transactional=True)
    machine.end_transaction(log, ControlType.ABORT, producer_id=1)
    log.roll()
    machine.append(log)
    machine.wait()
    assert log.recovery_point == 2
    begin(machine.manager.checkpoint_recovery_points())
    machine.wait()
    machine.disk.crash(keep_unsynced=False)
    machine.start()
    assert aborted_in(machine.log()) == [(1, 0, 1, 2)]


def test_an_abort_that_the_disk_lost_is_forgotten_by_the_index_too() -> None:
    machine = Machine()
    log = machine.log()
    machine.append(log, producer_id=1, epoch=0, sequence=0, is_transactional=True)
    machine.end_transaction(log, ControlType.ABORT, producer_id=1)
    machine.wait()
    machine.disk.kill()
    path = f"{FIRST}.log"
    machine.disk.open(path).truncate(machine.disk.size(path) - 1)
    machine.start()
    log = machine.log()
    assert (log.log_end_offset, log.first_unstable_offset) == (1, 0)
    assert aborted_in(log) == []
    machine.end_transaction(log, ControlType.COMMIT, producer_id=1)
    machine.restart()
    assert aborted_in(machine.log()) == []


def test_an_open_transaction_whose_records_were_deleted_is_not_forgotten() -> None:
    """The log's start lies within the segment whose snapshot remembers it."""
    machine = Machine()
    log = machine.log()
    machine.append(log, producer_id=1, epoch=0, sequence=0, is_transactional=True)
    log.roll()
    machine.append(log, count=3)
    log.advance_log_start_offset(2)
    begin(machine.manager.apply_retention())
    assert len(log.segments) == 1
    machine.wait(70)
    for clean in (True, False, True):
        machine.restart(clean=clean)
        log = machine.log()
        assert (log.log_start_offset, log.first_unstable_offset) == (2, 2)
        assert log.producer_state.has_open_transaction(1, 0)
