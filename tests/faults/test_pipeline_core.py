"""kill -9 of the broker while the pipeline's own client writes and reads: every record, once."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
import pytest

from ottla.client.blocking_cluster import EARLIEST, LATEST, BlockingCluster
from ottla.kernel.ids import TopicPartition
from ottla.pipeline.rows.appender import Appended, Appender
from ottla.pipeline.rows.fetcher import Fetcher
from tests.support.counts import count
from tests.support.ottla_process import OttlaProcess
from tests.support.side_by_side import Subject

TOPIC = "numbers"
PARTITION_COUNT = 2
ROWS_AT_ONCE = 500
SEED = 20_261_115


@contextmanager
def killing(broker: OttlaProcess, times: int) -> Iterator[threading.Event]:
    """Kills and restarts it so often, at moments that a seed gives; then the event is set."""
    over, stopping = threading.Event(), threading.Event()
    moments = random.Random(SEED)

    def run() -> None:
        for _ in range(times):
            if stopping.wait(moments.uniform(0.1, 0.6)):
                return
            broker.kill()
            broker.start()
        over.set()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield over
    finally:
        stopping.set()
        thread.join()


@pytest.mark.timeout(300)
def test_records_are_written_and_read_once_while_the_broker_is_killed(
    broker: OttlaProcess,
) -> None:
    with Subject("Ottla", broker.bootstrap) as subject:
        subject.create(TOPIC, PARTITION_COUNT)
    kills = count(full=20, quick=3)
    sent = 0
    with BlockingCluster([("127.0.0.1", broker.port)], request_timeout_s=5.0) as cluster:
        appender = Appender(cluster, batch_bytes=5_000)
        with killing(broker, kills) as over:
            while not over.is_set():
                numbers = pa.array(f"{number}" for number in range(sent, sent + ROWS_AT_ONCE))
                for partition in range(PARTITION_COUNT):
                    appender.append(TOPIC, partition, None, numbers)
                sent += ROWS_AT_ONCE
        written = appender.flush()
        assert set(written.values()) == {Appended(0, sent - 1, sent)}

        topic_id = cluster.topics([TOPIC])[TOPIC].topic_id
        for partition in range(PARTITION_COUNT):
            where = TopicPartition(TOPIC, partition)
            assert cluster.list_offsets({where: EARLIEST})[where].offset == 0
            assert cluster.list_offsets({where: LATEST})[where].offset == sent
            with killing(broker, 1):
                found: list[bytes] = []
                for batch in Fetcher(cluster, where, topic_id, 0, sent, max_bytes=20_000):
                    found += batch.column("value").to_pylist()
            assert found == [b"%d" % number for number in range(sent)]
