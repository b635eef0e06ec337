from __future__ import annotations

import errno

import pytest

from ottla.config.topic import TopicConfig
from ottla.kernel.disk import FileSlice
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.records.batch import TimestampType, parse_header, patch_max_timestamp
from ottla.records.builder import ControlType, build_end_txn_marker
from ottla.storage.batch_scan import Cold
from ottla.storage.errors import StorageFailure
from ottla.storage.folder import LogFolder
from ottla.storage.log import Log
from ottla.storage.pending_write import Appended, PendingWrite
from ottla.storage.producer_state import ProducerState
from ottla.storage.segment import ActiveSegment
from ottla.storage.snapshots import Snapshots
from ottla.storage.transaction_index import decode
from ottla.testing.disk import Fault, SimulatedFile
from tests.unit.storage.support import Machine, aborted_in, offsets_in


def _read(log: Log, offset: int, max_bytes: int = 1 << 20) -> bytes:
    piece = log.read(offset, max_bytes, max_offset=log.log_end_offset, at_least_one=True)
    assert isinstance(piece, FileSlice)
    return piece.read()


# Appending


def test_offsets_and_epoch_are_patched_in_place() -> None:
    machine = Machine()
    log = machine.log()
    machine.append(log, count=3)
    batch = machine.batch(2)
    appended = log.append_as_leader(parse_header(batch), memoryview(batch), 7, 0)
    assert appended == Appended(3, 4, -1, False)
    header = parse_header(batch)
    assert (header.base_offset, header.partition_leader_epoch) == (3, 7)
    assert _read(log, 3) == batch
    assert log.log_end_offset == 5


def test_log_append_time_is_answered() -> None:
    machine = Machine()
    batch = machine.batch(1)
    patch_max_timestamp(batch, TimestampType.LOG_APPEND_TIME, 12345)
    appended = machine.log().append_as_leader(parse_header(batch), memoryview(batch), 0, 0)
    assert appended.log_append_time_ms == 12345


def test_a_repeated_batch_is_answered_as_the_first_time_and_stored_once() -> None:
    machine = Machine()
    log = machine.log()
    machine.append(log, count=2)
    first = machine.append(log, count=3, producer_id=1, epoch=0, sequence=0)
    again = machine.append(log, count=3, producer_id=1, epoch=0, sequence=0)
    assert (again.first_offset, again.last_offset) == (first.first_offset, first.last_offset)
    assert again.is_duplicate
    assert not first.is_duplicate
    assert offsets_in(log) == [0, 1, 2, 3, 4]


def test_a_batch_larger_than_a_segment_is_refused() -> None:
    machine = Machine(TopicConfig(segment_bytes=200))
    log = machine.log()
    with pytest.raises(KafkaError) as caught:
        machine.append(log, value=b"x" * 500)
    assert caught.value.code is ErrorCode.RECORD_LIST_TOO_LARGE
    assert log.log_end_offset == 0


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_a_failed_write_is_never_acknowledged(error: int) -> None:
    machine = Machine()
    log = machine.log()
    machine.append(log, count=2, producer_id=1, epoch=0, sequence=0)
    machine.disk.fail(Fault("write_at", ".log", error))
    with pytest.raises(StorageFailure):
        machine.append(log, count=2, producer_id=1, epoch=0, sequence=2)
    assert log.log_end_offset == 2
    assert log.producer_state.producers[1].next_sequence == 2
    assert machine.failed == [("/data", ["t-0"])]
    for call in (
        lambda: machine.append(log),
        lambda: machine.append(log, count=2, producer_id=1, epoch=0, sequence=0),
        lambda: _read(log, 0),
        lambda: log.flush(),
    ):
        with pytest.raises(StorageFailure):
            call()


def _run_out_of_memory(*_: object) -> None:
    raise MemoryError


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (ActiveSegment, "note_append"),
        (ProducerState, "update"),
        (LogFolder, "wrote"),
        (SimulatedFile, "write_at"),
    ],
)
def test_whatever_ends_an_append_halfway_takes_the_log_dir_offline(
    owner: type, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the log would know another end than the file has."""
    machine = Machine()
    log = machine.log()
    machine.append(log, count=2, producer_id=1, epoch=0, sequence=0)
    size_bytes = log.size_bytes

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, _run_out_of_memory)
        with pytest.raises(StorageFailure, match="appending to /data/t-0: MemoryError"):
            machine.append(log, count=2, producer_id=1, epoch=0, sequence=2)
    assert machine.failed == [("/data", ["t-0"])]
    assert machine.disk.size("/data/t-0/00000000000000000000.log") == size_bytes
    with pytest.raises(StorageFailure):
        machine.append(log, count=2, producer_id=1, epoch=0, sequence=2)


def test_so_does_what_ends_a_prepared_append_or_a_new_segment_halfway(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = Machine()
    log = machine.log()
    batch = machine.batch(1)
    with monkeypatch.context() as patch:
        patch.setattr(ActiveSegment, "note_append", _run_out_of_memory)
        with pytest.raises(StorageFailure, match="MemoryError"):
            log.prepare(parse_header(batch), memoryview(batch), 0, 0)
    assert machine.failed == [("/data", ["t-0"])]
    machine.restart(clean=False)
    log = machine.log()
    machine.append(log)
    with monkeypatch.context() as patch:
        patch.setattr(Snapshots, "add", _run_out_of_memory)
        with pytest.raises(StorageFailure, match="rolling /data/t-0: MemoryError"):
            log.roll()


def test_reading_stops_before_what_is_pending() -> None:
    machine = Machine()
    log = machine.log()
    machine.append(log, count=2)
    size_bytes = log.size_bytes
    batch = machine.batch(1)
    log.prepare(parse_header(batch), memoryview(batch), 0, 0)
    assert len(_read(log, 0)) == size_bytes


def test_a_follower_keeps_the_leaders_offsets_and_epochs() -> None:
    machine = Machine()
    leader = machine.log()
    for epoch in (0, 0, 2):
        machine.append(leader, count=2, leader_epoch=epoch, producer_id=-1)
    content = _read(leader, 0)
    follower = Machine()
    log = follower.log()
    assert log.append_as_follower(memoryview(content + content[:40])) == len(content)
    assert log.append_as_follower(memoryview(content[:40])) == 0
    assert _read(log, 0) == content
    assert log.leader_epochs.entries == [(0, 0), (2, 4)]
    with pytest.raises(KafkaError):
        log.append_as_follower(memoryview(content))
    damaged = bytearray(machine.batch(1))
    damaged[-1] ^= 1
    damaged[0:8] = (6).to_bytes(8, "big")
    with pytest.raises(KafkaError) as caught:
        log.append_as_follower(memoryview(damaged))
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
    assert log.log_end_offset == 6


# Rolling, flushing


def test_a_segment_holds_no_more_than_two_to_the_31_offsets() -> None:
    machine = Machine()
    log = machine.log()
    machine.append(log)
    batch = machine.batch(1)
    batch[0:8] = (2**31 + 5).to_bytes(8, "big")
    log.append_as_follower(memoryview(batch))
    assert [segment.base_offset for segment in log.segments] == [0, 2**31 + 5]
    assert log.log_end_offset == 2**31 + 6
    assert parse_header(_read(log, 1)).base_offset == 2**31 + 5


def test_a_flush_is_due_when_flush_messages_records_are_not_on_the_disk() -> None:
    machine = Machine(TopicConfig(flush_messages=3))
    log = machine.log()
    machine.append(log, count=2)
    assert not log.is_flush_due
    machine.append(log)
    assert log.is_flush_due
    log.flush()
    machine.wait()
    assert not log.is_flush_due
    assert log.recovery_point == 3


def test_a_follower_flushes_by_flush_messages() -> None:
    machine = Machine(TopicConfig(flush_messages=3))
    log = machine.log()
    for offset, recovery_point in ((0, 0), (2, 4)):
        batch = machine.batch(2)
        batch[0:8] = offset.to_bytes(8, "big")
        log.append_as_follower(memoryview(batch))
        machine.wait()
        assert log.recovery_point == recovery_point


# Reading


@pytest.fixture
def rolled() -> tuple[Machine, Log]:
    """Ten batches of two records, in segments of four batches."""
    machine = Machine(TopicConfig(segment_bytes=400, index_interval_bytes=100))
    log = machine.log()
    for _ in range(10):
        machine.append(log, count=2)
    machine.wait()
    assert len(log.segments) == 3
    return machine, log


def test_a_read_begins_with_the_batch_that_holds_the_offset(rolled: tuple[Machine, Log]) -> None:
    _, log = rolled
    for offset in range(20):
        assert parse_header(_read(log, offset)).base_offset == offset // 2 * 2


def test_a_read_ends_where_the_segment_ends(rolled: tuple[Machine, Log]) -> None:
    _, log = rolled
    first = log.segments[0]
    assert len(_read(log, 0)) == first.size_bytes


def test_a_read_ends_before_max_offset(rolled: tuple[Machine, Log]) -> None:
    _, log = rolled
    one = len(_read(log, 0, max_bytes=1))
    for max_offset in (2, 4, 18):
        piece = log.read(max_offset - 2, 1 << 20, max_offset=max_offset, at_least_one=True)
        assert isinstance(piece, FileSlice)
        assert len(piece) == one
    assert log.read(4, 1 << 20, max_offset=4, at_least_one=True) is None
    assert log.read(20, 1 << 20, max_offset=20, at_least_one=True) is None


@pytest.mark.parametrize("offset", [-1, 21, 1000])
def test_offsets_out_of_range(rolled: tuple[Machine, Log], offset: int) -> None:
    with pytest.raises(KafkaError) as caught:
        rolled[1].read(offset, 10, max_offset=20, at_least_one=True)
    assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize("suffix", ["index", "log"])
def test_what_is_not_in_the_page_cache_is_not_waited_for(
    rolled: tuple[Machine, Log], suffix: str
) -> None:
    machine, log = rolled
    machine.disk.evict(f"/data/t-0/00000000000000000000.{suffix}")
    cold = log.read(5, 1 << 20, max_offset=20, at_least_one=True)
    assert isinstance(cold, Cold)
    assert cold.file.path.endswith(suffix)
    cold.warm()
    assert isinstance(log.read(5, 1 << 20, max_offset=20, at_least_one=True), FileSlice)


def test_an_offset_in_a_gap_gives_the_next_batch() -> None:
    machine = Machine()
    log = machine.log()
    for offset in (0, 10, 20):
        batch = machine.batch(2)
        batch[0:8] = offset.to_bytes(8, "big")
        log.append_as_follower(memoryview(batch))
        if offset == 10:
            log.roll()
    assert parse_header(_read(log, 5)).base_offset == 10
    assert parse_header(_read(log, 15)).base_offset == 20


def test_a_slice_stays_readable_after_its_segment_is_deleted(rolled: tuple[Machine, Log]) -> None:
    machine, log = rolled
    piece = log.read(0, 1 << 20, max_offset=20, at_least_one=True)
    assert isinstance(piece, FileSlice)
    content = piece.read()
    log.delete_segments(2)
    machine.wait(3600)
    assert "00000000000000000000.log.deleted" not in machine.names()
    assert piece.read() == content
    assert log.log_start_offset == log.segments[0].base_offset > 0


# Timestamps


def test_the_first_record_not_older_than_a_time() -> None:
    machine = Machine(TopicConfig(segment_bytes=200, index_interval_bytes=0))
    log = machine.log()
    for timestamp in (100, 300, 200, 400, 400, 350, 900, 800):
        machine.append(log, count=1, timestamp=timestamp)
    assert len(log.segments) > 2

    def find(timestamp: int) -> int | None:
        found = machine.run(log.offset_for_timestamp(timestamp))
        return found.offset if found else None

    assert [find(t) for t in (0, 100, 101, 300, 301, 401, 900, 901)] == [0, 0, 1, 1, 3, 6, 6, None]
    largest = machine.run(log.offset_of_max_timestamp())
    assert largest == (900, 6, 0)
    log.advance_log_start_offset(2)
    assert find(0) == 2


def test_the_largest_timestamp_of_an_empty_log() -> None:
    machine = Machine()
    assert machine.run(machine.log().offset_of_max_timestamp()) is None


# Losing records, on purpose


def test_truncation_forgets_records_epochs_and_producers(rolled: tuple[Machine, Log]) -> None:
    machine, log = rolled
    machine.append(log, count=2, leader_epoch=4, producer_id=8, epoch=0, sequence=0)
    machine.append(log, count=2, leader_epoch=4, producer_id=8, epoch=0, sequence=2)
    machine.run(log.folder.drain())
    assert log.truncate_to(22)
    assert log.producer_state.producers[8].next_sequence == 2
    assert log.leader_epochs.latest_epoch == 4
    assert log.truncate_to(6)
    assert log.log_end_offset == 6
    assert 8 not in log.producer_state.producers
    assert log.leader_epochs.latest_epoch == 0
    assert offsets_in(log) == list(range(6))
    assert not log.truncate_to(6)
    assert machine.append(log, count=1).first_offset == 6
    machine.wait()
    machine.restart()
    assert offsets_in(machine.log()) == list(range(7))


def test_truncation_below_the_first_segment_starts_anew(rolled: tuple[Machine, Log]) -> None:
    machine, log = rolled
    log.delete_segments(2)
    machine.run(log.folder.drain())
    assert log.truncate_to(3)
    assert (log.log_start_offset, log.log_end_offset) == (3, 3)
    assert machine.append(log).first_offset == 3
    machine.restart(clean=False)
    assert offsets_in(machine.log()) == [3]


def test_the_start_may_lie_inside_a_batch(rolled: tuple[Machine, Log]) -> None:
    machine, log = rolled
    log.advance_log_start_offset(5)
    assert offsets_in(log) == list(range(5, 20))
    log.advance_log_start_offset(3)
    assert log.log_start_offset == 5
    machine.restart()
    assert machine.log().log_start_offset == 5


def test_epochs_answer_where_they_end() -> None:
    machine = Machine()
    log = machine.log()
    for epoch in (1, 1, 3):
        machine.append(log, count=2, leader_epoch=epoch)
    assert log.end_offset_for_epoch(1) == (1, 4)
    assert log.end_offset_for_epoch(2) == (1, 4)
    assert log.end_offset_for_epoch(3) == (3, 6)
    assert log.end_offset_for_epoch(4) == (-1, -1)
    machine.restart(clean=False)
    assert machine.log().end_offset_for_epoch(1) == (1, 4)


# Transactions


def _transaction(machine: Machine, log: Log, producer_id: int, sequence: int = 0) -> Appended:
    return machine.append(
        log, producer_id=producer_id, epoch=0, sequence=sequence, is_transactional=True
    )


def _abort(machine: Machine, log: Log, producer_id: int) -> Appended:
    return machine.end_transaction(log, ControlType.ABORT, producer_id=producer_id)


def test_readers_of_committed_records_are_told_what_was_aborted() -> None:
    machine = Machine()
    log = machine.log()
    _transaction(machine, log, 1)
    _transaction(machine, log, 2)
    assert log.first_unstable_offset == 0
    _abort(machine, log, 1)
    assert log.first_unstable_offset == 1
    machine.end_transaction(log, ControlType.COMMIT, producer_id=2)
    assert log.first_unstable_offset is None
    assert aborted_in(log) == [(1, 0, 2, 1)]
    assert aborted_in(log, 3) == []


def test_there_is_no_transaction_index_before_an_abort() -> None:
    machine = Machine()
    log = machine.log()
    _transaction(machine, log, 1)
    machine.end_transaction(log, ControlType.COMMIT, producer_id=1)
    assert "00000000000000000000.txnindex" not in machine.names()
    _transaction(machine, log, 1, 1)
    _abort(machine, log, 1)
    content = machine.disk.read_file("/data/t-0/00000000000000000000.txnindex")
    assert decode(content, 0) == [(1, 2, 3, 4)]


def test_a_transaction_may_span_segments() -> None:
    machine = Machine()
    log = machine.log()
    _transaction(machine, log, 1)
    log.roll()
    machine.append(log)
    log.roll()
    _transaction(machine, log, 1, 1)
    _abort(machine, log, 1)
    log.roll()
    machine.append(log)
    machine.wait()
    names = [name for name in machine.names() if name.endswith(".txnindex")]
    assert names == ["00000000000000000002.txnindex"]
    for offset in range(4):
        assert aborted_in(log, offset) == [(1, 0, 3, 4)]
    assert aborted_in(log, 4) == []


def test_only_what_overlaps_a_piece_is_told_with_it() -> None:
    machine = Machine(TopicConfig(index_interval_bytes=1))
    log = machine.log()
    for number in range(50):
        _transaction(machine, log, 1, number)
        _abort(machine, log, 1)
    piece = log.read(40, 1, max_offset=100, at_least_one=True)
    assert isinstance(piece, FileSlice)
    aborted = log.aborted_transactions(40, piece, 100)
    assert isinstance(aborted, list)
    assert [each.first_offset for each in aborted] == [40]


def test_a_transaction_index_that_is_not_cached_is_waited_for() -> None:
    machine = Machine()
    log = machine.log()
    _transaction(machine, log, 1)
    _abort(machine, log, 1)
    log.roll()
    machine.wait()
    piece = log.read(0, 1000, max_offset=2, at_least_one=True)
    assert isinstance(piece, FileSlice)
    machine.disk.evict("/data/t-0/00000000000000000000.txnindex")
    cold = log.aborted_transactions(0, piece, 2)
    assert isinstance(cold, Cold)
    cold.warm()
    assert log.aborted_transactions(0, piece, 2) == [(1, 0, 1, 2)]


def test_a_transaction_index_that_cannot_be_read_fails_the_folder() -> None:
    machine = Machine()
    log = machine.log()
    _transaction(machine, log, 1)
    _abort(machine, log, 1)
    log.roll()
    machine.wait()
    piece = log.read(0, 1000, max_offset=2, at_least_one=True)
    assert isinstance(piece, FileSlice)
    machine.disk.fail(Fault("read_at", ".txnindex"))
    with pytest.raises(StorageFailure):
        log.aborted_transactions(0, piece, 2)


def test_deleted_records_hold_nobody_back_below_the_start() -> None:
    machine = Machine()
    log = machine.log()
    _transaction(machine, log, 1)
    machine.append(log, count=4)
    log.advance_log_start_offset(3)
    assert log.first_unstable_offset == 3


def test_a_segment_takes_its_transaction_index_with_it() -> None:
    machine = Machine()
    log = machine.log()
    _transaction(machine, log, 1)
    _abort(machine, log, 1)
    log.roll()
    machine.append(log)
    log.delete_segments(1)
    machine.wait(70)
    assert [name for name in machine.names() if "txnindex" in name] == []


@pytest.mark.parametrize("is_rolled", [True, False])
def test_truncation_opens_what_a_cut_marker_had_ended(is_rolled: bool) -> None:
    machine = Machine()
    log = machine.log()
    _transaction(machine, log, 1)
    _abort(machine, log, 1)
    _transaction(machine, log, 1, 1)
    if is_rolled:
        log.roll()
    _transaction(machine, log, 2)
    _abort(machine, log, 1)
    _abort(machine, log, 2)
    assert log.first_unstable_offset is None
    machine.run(log.folder.drain())
    for offset, first_unstable_offset, aborted in (
        (4, 2, [(1, 0, 1, 2)]),
        (3, 2, [(1, 0, 1, 2)]),
        (1, 0, []),
    ):
        log.truncate_to(offset)
        log.producer_state.transactions.replicated_to(offset)
        assert log.first_unstable_offset == first_unstable_offset
        assert aborted_in(log) == aborted
    # What is written in its place is another story.
    _abort(machine, log, 1)
    assert aborted_in(log) == [(1, 0, 1, 2)]
    machine.wait()
    machine.restart()
    assert aborted_in(machine.log()) == [(1, 0, 1, 2)]
    log = machine.log()
    log.truncate_fully_and_start_at(0)
    assert log.first_unstable_offset is None


def test_a_follower_learns_of_transactions_from_the_batches() -> None:
    machine = Machine()
    leader = machine.log()
    _transaction(machine, leader, 1)
    _transaction(machine, leader, 2)
    _abort(machine, leader, 1)
    _transaction(machine, leader, 3)
    follower = Machine(TopicConfig(segment_bytes=150))
    log = follower.log()
    content = memoryview(bytearray(_read(leader, 0)))
    while appended := log.append_as_follower(content):
        content = content[appended:]
    log.producer_state.transactions.replicated_to(4)
    assert log.first_unstable_offset == 1
    assert aborted_in(log) == aborted_in(leader) == [(1, 0, 2, 1)]


def test_a_slow_folder_gets_its_transaction_index_later() -> None:
    """The loop does not wait for it; a crash before it is written costs nothing."""
    machine = Machine()
    log = machine.log()
    _transaction(machine, log, 1)
    log.folder.wrote(1.0)
    marker = build_end_txn_marker(
        ControlType.ABORT,
        offset=0,
        timestamp=0,
        producer_id=1,
        producer_epoch=0,
        coordinator_epoch=0,
    )
    pending = log.prepare(parse_header(marker), memoryview(marker), 0, 0)
    assert isinstance(pending, PendingWrite)
    pending.write()
    log.commit(pending)
    assert aborted_in(log) == [(1, 0, 1, 2)]
    assert "00000000000000000000.txnindex" not in machine.names()
    log.roll()
    assert "00000000000000000000.txnindex" in machine.names()
    machine.wait()
    machine.restart()
    assert aborted_in(machine.log()) == [(1, 0, 1, 2)]
