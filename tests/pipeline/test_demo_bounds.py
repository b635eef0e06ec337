"""What a demo that runs for a week would leave in Java's memory and on disk, shown in accelerated
time: batches follow one another, and Java collects ten times as often. In `./test --full` only: a
thousand batches take minutes."""

from __future__ import annotations

import functools
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import NamedTuple

import psutil
import pytest

from ottla.cli.child_pipeline import ChildPipeline
from ottla.cli.client import Cluster
from ottla.cli.demo.feed import Feed
from ottla.cli.demo.run import PIPELINE_SETTINGS
from ottla.cli.demo.site_clock import SiteClock
from ottla.cli.demo.topics import ACTIVITY, make_topics
from ottla.cli.pipeline.results.activity_results import TOPICS
from tests.support.need import need_command
from tests.support.ottla_process import OttlaProcess

BATCHES = 1000
SAMPLES = 5
RATE = 50
ACCELERATED = {"trigger_s": "0.05", "spark.cleaner.periodicGC.interval": "6s"}
PLAN = "org.apache.spark.sql.execution.streaming.runtime.IncrementalExecution"
"""Java has one for each batch, and with it all that was computed for it."""
PLANS_MAX = 60
OLD_HEAP_MB_MAX = 200
"""Of the 1024 that Java may take."""
TENURED = re.compile(r"tenured generation +total \d+K, used (\d+)K")


class Sample(NamedTuple):
    batches: int
    plans: int
    old_heap_mb: int
    memory_mb: int
    checkpoint_files: int
    spark_files: int


class Watched:
    """The demo's pipeline, and the Java in it."""

    def __init__(self, pipeline: ChildPipeline) -> None:
        self._pipeline = pipeline
        self._folder = Path(pipeline.lake).parent

    def batches(self) -> int:
        assert self._pipeline.exit_code() is None, self._pipeline.reason()
        return sum(batch["batch_id"] + 1 for batch in self._pipeline.last.copy().values())

    def sample(self) -> Sample:
        """After a collection of all that Java has, which the histogram makes."""
        plans = re.search(rf" (\d+) +\d+ +{re.escape(PLAN)}\n", self._ask("GC.class_histogram"))
        tenured = TENURED.search(self._ask("GC.heap_info"))
        assert tenured is not None
        return Sample(
            self.batches(),
            int(plans[1]) if plans else 0,
            int(tenured[1]) >> 10,
            self._java.memory_info().rss >> 20,
            _files(self._folder / "job" / "checkpoints"),
            _files(self._folder / "spark"),
        )

    @functools.cached_property
    def _java(self) -> psutil.Process:
        for one in psutil.Process(self._pipeline.pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):  # a worker that has ended meanwhile
                if one.name() == "java":
                    return one
        raise AssertionError("there is no Java")

    def _ask(self, question: str) -> str:
        command = ["jcmd", str(self._java.pid), question]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _files(folder: Path) -> int:
    return sum(1 for path in folder.rglob("*") if path.is_file())


@pytest.fixture
def watched(
    broker: OttlaProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Watched]:
    need_command("jcmd", "a JDK")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    cluster = Cluster(broker.bootstrap, {})
    make_topics(cluster, [ACTIVITY, *TOPICS])
    feed = Feed(cluster, ACTIVITY, RATE, SiteClock(time.time_ns() // 1_000_000), Event())
    feed.start()
    settings = {**PIPELINE_SETTINGS, **ACCELERATED}
    with ChildPipeline("activity", broker.bootstrap, settings) as pipeline:
        yield Watched(pipeline)
    feed.stop(10)


@pytest.mark.timeout(3600)
def test_java_and_its_files_stay_as_small_as_they_were(watched: Watched) -> None:
    samples = []
    for number in range(1, SAMPLES + 1):
        while watched.batches() < BATCHES * number // SAMPLES:
            time.sleep(0.5)
        samples.append(watched.sample())
        print(samples[-1])
    assert max(one.plans for one in samples) <= PLANS_MAX
    assert max(one.old_heap_mb for one in samples) <= OLD_HEAP_MB_MAX
    before, after = samples[1:3], samples[3:]
    for name in ("old_heap_mb", "checkpoint_files", "spark_files"):
        most = max(getattr(one, name) for one in before)
        assert max(getattr(one, name) for one in after) <= 1.5 * most, (name, samples)
