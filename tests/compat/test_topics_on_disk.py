"""Segments on real files: rolling, retention by size and time, deleted records, deleted topics."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.conftest import MakeBroker
from tests.support.ottla_process import OttlaProcess
from tests.support.side_by_side import NOW_MS, Subject, a_batch

TIMEOUT_S = 60
DAY_MS = 24 * 3_600_000

# Kafka looks for the first time after half a minute, then every five minutes.
EAGER = {"log.initial.task.delay.ms": "100", "log.retention.check.interval.ms": "100"}


@pytest.fixture
def broker(make_broker: MakeBroker) -> OttlaProcess:
    return make_broker(settings=EAGER)


def wait_until(is_done: Callable[[], bool], what: str) -> None:
    deadline_s = time.monotonic() + TIMEOUT_S
    while not is_done():
        assert time.monotonic() < deadline_s, what
        time.sleep(0.02)


def segments(broker: OttlaProcess, topic: str) -> list[int]:
    """First offsets of what a reader can find; deleted files keep their names for a while."""
    folder = broker.data_dir / f"{topic}-0"
    return sorted(int(path.stem) for path in folder.glob("*.log"))


def offsets(subject: Subject, topic: str) -> tuple[int, int]:
    found = subject.fetch(topic, 10**9).responses[0].partitions[0]
    assert found.error_code != 0, "out of range, so that nothing is read"
    end = subject.produce(topic, a_batch(b"end"))
    return end.log_start_offset, end.base_offset


def test_segments_roll_by_size(broker: OttlaProcess) -> None:
    with Subject("Ottla", broker.bootstrap) as subject:
        subject.create("t", internal_segment_bytes="10000")
        for n in range(50):
            subject.produce("t", a_batch(b"%d" % n, b"x" * 1000))
        found = segments(broker, "t")
        assert len(found) > 4
        assert all(first % 2 == 0 for first in found), "a batch is never split"
        sizes = [path.stat().st_size for path in (broker.data_dir / "t-0").glob("*.log")]
        assert max(sizes) <= 10_000
        read = 0
        while read < 100:
            records = subject.fetch("t", read).responses[0].partitions[0].records
            position = 0
            while position < len(records):
                read = int.from_bytes(records[position : position + 8], "big") + 2
                position += 12 + int.from_bytes(records[position + 8 : position + 12], "big")
        for name in ("index", "timeindex"):
            assert len(list((broker.data_dir / "t-0").glob(f"*.{name}"))) == len(found)


def test_segments_roll_by_time(broker: OttlaProcess) -> None:
    """By the records' timestamps."""
    with Subject("Ottla", broker.bootstrap) as subject:
        subject.create("t", segment_ms="60000")
        for minutes in (0, 0, 2, 2, 4):
            subject.produce("t", a_batch(b"v", timestamp=NOW_MS - DAY_MS + minutes * 60_000))
        assert segments(broker, "t") == [0, 2, 4]


def test_retention_by_size(broker: OttlaProcess) -> None:
    with Subject("Ottla", broker.bootstrap) as subject:
        subject.create("t", internal_segment_bytes="10000", retention_bytes="30000")
        for _ in range(100):
            subject.produce("t", a_batch(b"x" * 1000))
        # Whole segments go, and only while what stays is as much as was asked for.
        wait_until(lambda: len(segments(broker, "t")) <= 4, "old segments stay")
        start, end = offsets(subject, "t")
        assert end == 100
        assert start == segments(broker, "t")[0] > 0


def test_retention_by_time(broker: OttlaProcess) -> None:
    """Judged by the newest record of a segment; the active segment goes too once it is old."""
    with Subject("Ottla", broker.bootstrap) as subject:
        subject.create("t", internal_segment_bytes="10000", retention_ms=str(DAY_MS))
        for _ in range(30):
            subject.produce("t", a_batch(b"x" * 1000, timestamp=NOW_MS - 2 * DAY_MS))
        subject.produce("t", a_batch(b"young"))
        young = [first for first in segments(broker, "t") if first <= 30][-1]
        wait_until(lambda: segments(broker, "t")[0] == young, "old segments stay")
        assert offsets(subject, "t") == (young, 31)


def test_files_go_after_their_delay(broker: OttlaProcess) -> None:
    with Subject("Ottla", broker.bootstrap) as subject:
        subject.create(
            "t", internal_segment_bytes="10000", retention_bytes="1", file_delete_delay_ms="200"
        )
        for _ in range(50):
            subject.produce("t", a_batch(b"x" * 1000))
        wait_until(lambda: segments(broker, "t")[0] > 0, "old segments stay")
        folder = broker.data_dir / "t-0"
        wait_until(lambda: not list(folder.glob("*.deleted")), "files stay")


def test_deleted_records_go_with_their_segments(broker: OttlaProcess) -> None:
    with Subject("Ottla", broker.bootstrap) as subject:
        subject.create("t", internal_segment_bytes="10000")
        for _ in range(50):
            subject.produce("t", a_batch(b"x" * 1000))
        partition = DeleteRecordsPartition(partition_index=0, offset=33)
        topic = DeleteRecordsTopic(name="t", partitions=[partition])
        subject.ask(DeleteRecordsRequest(topics=[topic], timeout_ms=10_000))
        wait_until(lambda: 0 < segments(broker, "t")[0] <= 33, "old segments stay")
        broker.kill()
        broker.start()
    with Subject("Ottla", broker.bootstrap) as subject:
        start, end = offsets(subject, "t")
        assert end == 50
        assert start in (33, segments(broker, "t")[0]), "never back before what was deleted"


def test_settings_change_under_way(broker: OttlaProcess) -> None:
    """A topic's new segment size holds for the next segment, the broker's for topics without."""
    with Subject("Ottla", broker.bootstrap) as subject:
        subject.create("t")
        for _ in range(20):
            subject.produce("t", a_batch(b"x" * 1000))
        assert segments(broker, "t") == [0]
        change = AlterableConfig(name="internal.segment.bytes", config_operation=0, value="10000")
        resource = AlterConfigsResource(resource_type=2, resource_name="t", configs=[change])
        answer = subject.ask(IncrementalAlterConfigsRequest(resources=[resource]))
        assert answer.responses[0].error_code == 0
        for _ in range(20):
            subject.produce("t", a_batch(b"x" * 1000))
        assert len(segments(broker, "t")) > 2


def test_the_folder_of_a_deleted_topic(make_broker: MakeBroker) -> None:
    broker = make_broker(settings={"log.segment.delete.delay.ms": "300"})
    with Subject("Ottla", broker.bootstrap) as subject:
        subject.create("t", 2)
        subject.produce("t", a_batch(b"v"))
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=10_000)
        assert subject.ask(request).responses[0].error_code == 0
        assert not (broker.data_dir / "t-0").exists()
        subject.create("t")
        assert subject.produce("t", a_batch(b"v")).base_offset == 0

        def is_gone(folder: Path) -> bool:
            return not list(folder.glob("t-*-delete"))

        wait_until(lambda: is_gone(broker.data_dir), "the folder stays")
        assert (broker.data_dir / "t-0").exists()


def test_the_file_of_topics_may_be_elsewhere(make_broker: MakeBroker, tmp_path: Path) -> None:
    path = tmp_path / "new" / "topics.db"
    broker = make_broker(settings={"ottla.coordination.file": str(path)})
    with Subject("Ottla", broker.bootstrap) as subject:
        subject.create("t")
        subject.produce("t", a_batch(b"kept"))
    broker.restart()
    with Subject("Ottla", broker.bootstrap) as subject:
        assert subject.produce("t", a_batch(b"more")).base_offset == 1
    assert path.is_file()
    assert not (broker.data_dir / "coordination.db").exists()
