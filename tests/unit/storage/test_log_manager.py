from __future__ import annotations

import asyncio
import errno

import pytest

from ottla.config.topic import TopicConfig
from ottla.kernel.eager import begin
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import TopicPartition, new_topic_id
from ottla.storage.errors import BrokerStartRefused, StorageFailure
from ottla.storage.log import Log
from ottla.testing.disk import Fault
from ottla.testing.workers import SimulatedWorkers
from tests.unit.storage.support import PARTITION, Machine, offsets_in

OTHER = TopicPartition("other", 3)


def test_a_clean_stop_leaves_kafkas_files() -> None:
    machine = Machine()
    topic_id = new_topic_id(machine.rng)
    log = machine.manager.create_log(PARTITION, topic_id, machine.config)
    machine.append(log, count=4, producer_id=2, epoch=0, sequence=0)
    log.advance_log_start_offset(1)
    begin(machine.manager.checkpoint_high_watermarks(lambda _: 4))
    machine.stop()
    assert machine.names("/data") == [
        ".kafka_cleanshutdown",
        ".lock",
        "log-start-offset-checkpoint",
        "meta.properties",
        "recovery-point-offset-checkpoint",
        "replication-offset-checkpoint",
        "t-0",
    ]
    assert machine.names() == [
        "00000000000000000000.index",
        "00000000000000000000.log",
        "00000000000000000000.timeindex",
        "00000000000000000004.snapshot",
        "leader-epoch-checkpoint",
        "partition.metadata",
    ]
    for name, content in {
        "recovery-point-offset-checkpoint": b"0\n1\nt 0 4\n",
        "log-start-offset-checkpoint": b"0\n1\nt 0 1\n",
        "replication-offset-checkpoint": b"0\n1\nt 0 4\n",
        ".kafka_cleanshutdown": b'{"version":0,"brokerEpoch":-1}',
        "t-0/leader-epoch-checkpoint": b"0\n1\n0 1\n",
    }.items():
        assert machine.disk.read_file(f"/data/{name}") == content
    machine.start()
    found = machine.manager.get(PARTITION)
    assert found is not None
    assert (found.topic_id, found.log_start_offset, found.log_end_offset) == (topic_id, 1, 4)
    assert machine.manager.read_high_watermarks() == {PARTITION: 4}
    assert ".kafka_cleanshutdown" not in machine.names("/data")


def test_a_clean_stop_survives_a_power_cut_at_once() -> None:
    machine = Machine(TopicConfig(segment_bytes=300))
    log = machine.log()
    for _ in range(20):
        machine.append(log, count=2)
    machine.stop()
    machine.disk.crash(keep_unsynced=False)
    machine.start()
    assert offsets_in(machine.log()) == list(range(40))


def test_a_second_broker_on_the_same_folder_is_refused() -> None:
    machine = Machine()
    names = machine.names("/data")
    second = machine.new_manager()
    with pytest.raises(BrokerStartRefused, match="in use by another broker"):
        second.lock()
    machine.run(second.close())
    assert machine.names("/data") == names
    machine.stop()
    machine.start()


def test_only_what_was_loaded_is_marked_as_cleanly_stopped() -> None:
    """A start that gave up early knows nothing of the logs: were they marked, or their checkpoints
    written, the next start would believe what the crash had left."""
    machine = Machine()
    log = machine.log()
    machine.append(log, count=3)
    log.advance_log_start_offset(2)
    machine.restart()
    machine.append(machine.log(), count=2)
    machine.disk.kill()
    machine.disk.open("/data/t-0/00000000000000000000.log").write_at(10_000, (b"torn",))
    gave_up = machine.new_manager()
    gave_up.lock()
    machine.run(gave_up.close())
    machine.start()
    assert (machine.log().log_start_offset, machine.log().log_end_offset) == (2, 5)
    assert machine.disk.size("/data/t-0/00000000000000000000.log") == machine.log().size_bytes


def test_a_log_is_made_once() -> None:
    machine = Machine()
    log = machine.log()
    assert machine.log() is log
    assert machine.manager.get(OTHER) is None


def test_new_logs_go_where_there_are_fewest() -> None:
    machine = Machine(log_dirs="/a,/b,/c")
    for number in range(6):
        machine.log(TopicPartition("t", number))
    assert [folder.log_count for folder in machine.manager.folders] == [2, 2, 2]
    machine.restart()
    assert [folder.log_count for folder in machine.manager.folders] == [2, 2, 2]
    machine.run(machine.manager.delete(TopicPartition("t", 4)))
    machine.log(TopicPartition("t", 9))
    assert machine.disk.exists("/b/t-9")


def test_one_failed_disk_takes_only_its_own_logs_offline() -> None:
    machine = Machine(log_dirs="/a,/b")
    first, second = machine.log(TopicPartition("t", 0)), machine.log(TopicPartition("t", 1))
    machine.wait()
    machine.disk.fail(Fault("write_at", "/a/"))
    with pytest.raises(StorageFailure, match="/a"):
        machine.append(first)
    assert machine.failed == [("/a", ["t-0"])]
    machine.append(second)
    third = machine.log(TopicPartition("t", 2))
    assert third.folder.path == "/b"
    machine.stop()
    assert ".kafka_cleanshutdown" in machine.names("/b")
    assert ".kafka_cleanshutdown" not in machine.names("/a")


def test_a_disk_that_fails_at_start_is_left_out() -> None:
    machine = Machine(log_dirs="/a,/b")
    machine.log(TopicPartition("t", 0))
    machine.log(TopicPartition("t", 1))
    machine.stop()
    machine.disk.fail(Fault("list_folder", "/a"))
    machine.start()
    assert machine.failed == [("/a", [])]
    assert list(machine.manager.logs) == [TopicPartition("t", 1)]
    # It may have the log that is missed. Made anew, and empty, it would be there twice later.
    with pytest.raises(StorageFailure, match="/a"):
        machine.manager.create_log(TopicPartition("t", 0), None, machine.config, is_new=False)
    assert not machine.disk.exists("/b/t-0")
    machine.manager.create_log(TopicPartition("t", 2), None, machine.config, is_new=True)
    assert machine.disk.exists("/b/t-2")


def test_no_disk_at_all_is_refused() -> None:
    machine = Machine()
    machine.stop()
    machine.disk.fail(Fault("open", ".lock", errno.EROFS))
    with pytest.raises(BrokerStartRefused, match="Read-only"):
        machine.start()


def test_a_partition_in_two_folders_is_refused() -> None:
    machine = Machine(log_dirs="/a,/b")
    machine.log()
    machine.stop()
    machine.disk.make_folders("/b/t-0")
    with pytest.raises(BrokerStartRefused, match="in both"):
        machine.start()


def test_another_clusters_folder_is_refused() -> None:
    machine = Machine()
    machine.stop()
    manager = machine.new_manager()
    manager.lock()
    with pytest.raises(BrokerStartRefused, match="belongs to the cluster cluster"):
        machine.run(
            manager.start(
                broker_id=1, cluster_id="another", topic_configs=lambda topic: machine.config
            )
        )


def test_a_deleted_log_is_gone_at_once_and_removed_later() -> None:
    machine = Machine()
    log = machine.log()
    machine.append(log)
    machine.run(machine.manager.delete(PARTITION))
    assert machine.manager.get(PARTITION) is None
    (name,) = [name for name in machine.names("/data") if name.startswith("t-0")]
    assert name.endswith("-delete")
    again = machine.log()
    assert again.log_end_offset == 0
    machine.append(again)
    machine.wait(61)
    assert [name for name in machine.names("/data") if name.startswith("t-0")] == ["t-0"]
    assert not machine.failed


@pytest.mark.parametrize("crash_when", ["before the deletion", "after it", "both"])
def test_a_log_of_a_name_that_was_there_before_is_not_taken_for_that(crash_when: str) -> None:
    """Its checkpoints are not: a start offset of the old log would drop all of the new one."""
    machine = Machine()
    log = machine.log()
    machine.append(log, count=500)
    log.advance_log_start_offset(400)
    machine.restart()
    machine.run(machine.manager.delete(PARTITION))
    if crash_when != "after it":
        machine.restart(clean=False)
    machine.append(machine.log(), count=100)
    if crash_when != "before the deletion":
        machine.restart(clean=False)
    assert offsets_in(machine.log()) == list(range(100))
    assert b"t 0" not in machine.disk.read_file("/data/log-start-offset-checkpoint")
    assert b"t 0 500" not in machine.disk.read_file("/data/recovery-point-offset-checkpoint")


def test_a_folder_that_went_while_the_broker_was_down_leaves_no_checkpoint() -> None:
    machine = Machine()
    log = machine.log()
    machine.append(log, count=500)
    log.advance_log_start_offset(400)
    machine.stop()
    machine.disk.remove_folder("/data/t-0")
    machine.start()
    machine.append(machine.log(), count=100)
    machine.restart(clean=False)
    assert offsets_in(machine.log()) == list(range(100))


def test_deletion_does_not_wait_for_what_others_do_meanwhile() -> None:
    """A log that is flushed all the time keeps the queue of the log dir from ever being empty."""
    machine = Machine()
    other = machine.log(OTHER)
    machine.append(other)
    machine.log()

    async def delete() -> None:
        deletion = asyncio.ensure_future(machine.manager.delete(PARTITION))
        for _ in range(10_000):
            if deletion.done():
                return
            other.flush()
            await asyncio.sleep(0.0001)
        raise AssertionError("the deletion waits for ever")

    machine.run(delete())


def test_looking_for_a_timestamp_while_the_log_is_deleted_is_no_failure_of_the_disk() -> None:
    machine = Machine(TopicConfig(segment_bytes=150))
    log = machine.log()
    for timestamp in range(6):
        machine.append(log, timestamp=timestamp)
    machine.wait()

    async def search() -> None:
        log.folder.workers = SimulatedWorkers(machine.loop, machine.rng, delay_s_max=100)
        searches = [
            asyncio.ensure_future(log.offset_for_timestamp(1)),
            asyncio.ensure_future(log.offset_of_max_timestamp()),
        ]
        await asyncio.sleep(0)
        await machine.manager.delete(PARTITION)
        for each in searches:
            with pytest.raises(KafkaError) as caught:
                await each
            assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    machine.run(search())
    assert not machine.failed


def test_deletion_does_not_trip_over_queued_work() -> None:
    machine = Machine(TopicConfig(segment_bytes=150))
    log = machine.log()
    for _ in range(6):
        machine.append(log, count=2, producer_id=1, epoch=0, sequence=0)
        machine.append(log)
    machine.run(machine.manager.delete(PARTITION))
    machine.wait(1)
    assert not machine.failed


def test_a_folder_marked_for_deletion_goes_at_the_next_start() -> None:
    machine = Machine()
    machine.log()
    machine.run(machine.manager.delete(PARTITION))
    machine.restart(clean=False)
    machine.wait()
    assert not [name for name in machine.names("/data") if name.endswith("-delete")]


def test_folders_that_are_not_ours_are_left_alone() -> None:
    machine = Machine()
    machine.stop()
    names = ["lost+found", "t-1.abc-stray", "t-2.abc-future", "__cluster_metadata-0"]
    for name in names:
        machine.disk.make_folders(f"/data/{name}")
    machine.start()
    machine.wait()
    assert not machine.manager.logs
    assert set(names) <= set(machine.names("/data"))


def test_a_topic_id_is_written_once_and_never_changed() -> None:
    machine = Machine()
    log = machine.log()
    topic_id = new_topic_id(machine.rng)
    machine.manager.assign_topic_id(log, topic_id)
    machine.manager.assign_topic_id(log, topic_id)
    with pytest.raises(KafkaError) as caught:
        machine.manager.assign_topic_id(log, new_topic_id(machine.rng))
    assert caught.value.code is ErrorCode.INCONSISTENT_TOPIC_ID
    machine.wait()
    machine.restart(clean=False)
    assert machine.log().topic_id == topic_id


def test_a_new_log_has_its_topic_id_before_anything_is_queued() -> None:
    machine = Machine()
    topic_id = new_topic_id(machine.rng)
    machine.manager.create_log(PARTITION, topic_id, machine.config)
    machine.restart(clean=False)
    assert machine.log().topic_id == topic_id


@pytest.mark.parametrize("content", [b"", bytes(20), b"version: 0\ntopic_id: CUYX75"])
def test_a_topic_id_that_the_power_took_is_missing_not_damaged(content: bytes) -> None:
    machine = Machine()
    machine.append(machine.log())
    machine.wait()
    machine.disk.replace_file("/data/t-0/partition.metadata", content)
    machine.restart(clean=False)
    for _ in range(2):
        assert machine.log().topic_id is None
        assert machine.log().log_end_offset == 1
        machine.restart()


def test_damaged_checkpoints_are_done_without() -> None:
    machine = Machine()
    machine.append(machine.log(), count=3)
    machine.stop()
    for name in ("recovery-point", "log-start", "replication"):
        machine.disk.replace_file(f"/data/{name}-offset-checkpoint", b"nonsense\nin\nhere\n")
    machine.start()
    assert machine.log().log_end_offset == 3
    assert machine.manager.read_high_watermarks() == {}


def test_retention_goes_on_past_a_log_that_cannot_be_read() -> None:
    machine = Machine(TopicConfig(retention_ms=1000, segment_bytes=150), log_dirs="/a,/b")
    logs = [machine.log(TopicPartition("t", number)) for number in range(2)]
    for log in logs:
        for _ in range(4):
            machine.append(log)
    machine.restart()
    machine.wait(10)
    machine.disk.fail(Fault("open", "/a/t-0/00000000000000000000.timeindex"))
    begin(machine.manager.apply_retention())
    assert machine.failed == [("/a", ["t-0"])]
    assert machine.log(TopicPartition("t", 1)).log_start_offset == 4


def test_retention_goes_on_past_a_log_that_a_bug_has_hurt(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(TopicConfig(retention_ms=1000, segment_bytes=150))
    hurt, well = (machine.log(TopicPartition("t", number)) for number in range(2))
    for log in (hurt, well):
        for _ in range(4):
            machine.append(log)
    machine.wait(10)

    def broken(count: int) -> None:
        raise AssertionError(f"no {count} segments here")

    monkeypatch.setattr(hurt, "delete_segments", broken)
    begin(machine.manager.apply_retention())
    assert well.log_start_offset == 4
    assert "the retention of /data/t-0 could not be applied" in caplog.text


def test_periodic_work() -> None:
    machine = Machine(
        TopicConfig(retention_ms=60_000, segment_bytes=150, flush_ms=5000),
        settings={
            "log.retention.check.interval.ms": "60000",
            "producer.id.expiration.ms": "120000",
            "producer.id.expiration.check.interval.ms": "60000",
        },
    )
    log = machine.log()
    for sequence in range(4):
        machine.append(log, producer_id=1, epoch=0, sequence=sequence)
    machine.wait(8)
    assert log.recovery_point == 4
    machine.wait(30)
    assert b"t 0 4" in machine.disk.read_file("/data/recovery-point-offset-checkpoint")
    assert offsets_in(log) == [0, 1, 2, 3]
    machine.wait(120)
    assert offsets_in(log) == []
    machine.wait(120)
    assert log.producer_state.producers == {}
    machine.stop()


def test_periodic_work_goes_on_past_a_bug(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(TopicConfig(flush_ms=5000))
    log = machine.log()
    machine.append(log)

    def broken() -> None:
        monkeypatch.undo()
        raise AssertionError("a bug")

    monkeypatch.setattr(log, "flush_soon", broken)
    machine.wait(60)
    assert log.recovery_point == 1
    assert caplog.text.count("flush_old failed") == 1
    machine.stop()


def test_a_checkpoint_is_as_new_as_the_last_that_was_asked_for() -> None:
    machine = Machine()
    logs = [machine.log(TopicPartition("t", number)) for number in range(2)]
    assert logs
    offset = 1

    def slowly(_: Log) -> int:
        machine.loop.pass_time(0.002)
        return offset

    async def main() -> None:
        nonlocal offset
        older = asyncio.ensure_future(machine.manager.checkpoint_high_watermarks(slowly))
        await asyncio.sleep(0)
        offset = 2
        await machine.manager.checkpoint_high_watermarks(lambda _: offset)
        await older

    machine.loop.run_until_complete(main())
    machine.wait(1)
    content = machine.disk.read_file("/data/replication-offset-checkpoint")
    assert content.splitlines()[2:] == [b"t 0 2", b"t 1 2"]
    machine.stop()
