"""A stream from a topic to the lake, whose JVM is killed: each record is there once in the end."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import confluent_kafka
import pytest

from ottla.pipeline.lake.lake import Lake
from tests.support.counts import count
from tests.support.need import need_java
from tests.support.ottla_process import OttlaProcess
from tests.support.side_by_side import Subject

_ROOT = Path(__file__).resolve().parents[2]
_DRIVER = Path(__file__).parent / "drivers" / "topic_to_lake.py"

PARTITION_COUNT = 3
RECORDS_A_RUN = 450
"""Three batches of a run, or more."""

POINTS = (
    "before",  # The files are written, and no commit names them.
    "after",  # The commit is written, and Spark does not know.
    "between",  # The same, with all of our work done.
    "offsets",  # A batch is being planned, in the checkpoint.
)


class Copy:
    """Of a topic to a lake, run after run."""

    def __init__(self, bootstrap: str, topic: str, folder: Path) -> None:
        self.bootstrap = bootstrap
        self.topic = topic
        self.folder = folder
        self.produced = 0
        folder.mkdir(exist_ok=True)
        with Subject("Ottla", bootstrap) as subject:
            subject.create(topic, PARTITION_COUNT)

    def produce(self) -> None:
        producer = confluent_kafka.Producer({"bootstrap.servers": self.bootstrap})
        for number in range(self.produced, self.produced + RECORDS_A_RUN):
            producer.produce(self.topic, b"%d" % number, partition=number % PARTITION_COUNT)
        assert producer.flush(30) == 0
        self.produced += RECORDS_A_RUN

    @contextmanager
    def started(self, point: str = "none") -> Iterator[subprocess.Popen[str]]:
        with open(self.folder / "driver.log", "a") as log:
            driver = subprocess.Popen(
                [sys.executable, _DRIVER, self.bootstrap, self.topic, self.folder, point],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, "PYTHONPATH": f"{_ROOT / 'src'}{os.pathsep}{_ROOT}"},
            )
        with driver:
            try:
                yield driver
            finally:
                driver.kill()

    def run(self, point: str = "none") -> int:
        with self.started(point) as driver:
            return driver.wait()

    def run_until_killed(self, planned: int, after_s: float) -> None:
        """When so many batches were planned, and then some time. Only the JVM is killed; its driver
        has to end by itself."""
        goal = self.planned() + planned
        with self.started() as driver:
            assert driver.stdout is not None
            jvm = int(driver.stdout.readline())
            while self.planned() < goal and driver.poll() is None:
                time.sleep(0.01)
            time.sleep(after_s)
            with suppress(ProcessLookupError):
                os.kill(jvm, signal.SIGKILL)
            driver.wait()

    def planned(self) -> int:
        return len(list((self.folder / "checkpoint" / "offsets").glob("[0-9]*")))

    def finish(self) -> None:
        assert self.run() == 0, (self.folder / "driver.log").read_text()[-5000:]

    def check(self) -> None:
        table = Lake(self.folder / "lake").table("records").delta()
        rows = table.to_pyarrow_table(columns=["partition", "offset", "value"]).to_pylist()
        found = Counter((row["partition"], row["offset"], int(row["value"])) for row in rows)
        assert found == Counter(
            (number % PARTITION_COUNT, number // PARTITION_COUNT, number)
            for number in range(self.produced)
        )
        self.check_offsets(table.history())

    def check_offsets(self, history: list[dict[str, str]]) -> None:
        """Each commit goes on where the one before it ended."""
        reached = dict.fromkeys(map(str, range(PARTITION_COUNT)), 0)
        for entry in reversed(history):
            for partition, (start, end) in json.loads(entry["ottla.offsets"])[self.topic].items():
                assert (start or 0) == reached[partition]
                reached[partition] = end
        assert sum(reached.values()) == self.produced


@pytest.mark.timeout(900)
def test_kills_at_each_point(shared_broker: OttlaProcess, tmp_path: Path) -> None:
    need_java()
    copy = Copy(shared_broker.bootstrap, "lake-points", tmp_path / "points")
    for point in POINTS:
        copy.produce()
        assert copy.run(point) == 1, f"{point}: {(copy.folder / 'driver.log').read_text()[-5000:]}"
    copy.finish()
    copy.check()


@pytest.mark.timeout(count(3600, 900))
def test_kills_at_any_moment(shared_broker: OttlaProcess, tmp_path: Path) -> None:
    need_java()
    copy = Copy(shared_broker.bootstrap, "lake-moments", tmp_path / "moments")
    moments = random.Random(0)
    for _ in range(count(20, 2)):
        copy.produce()
        copy.run_until_killed(moments.randrange(4), moments.uniform(0, 1.5))
    copy.finish()
    copy.check()
