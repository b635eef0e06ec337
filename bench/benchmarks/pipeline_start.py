"""What everybody waits for who starts a pipeline: its first result."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from bench import client, process, topics
from bench.benchmark import Measures, Setting
from bench.broker import BenchError, Broker
from ottla.cli.child_pipeline import ChildPipeline

_PARTITIONS = 4
_RECORDS = 3000
_PATIENCE_S = 300.0
_LOOK_S = 0.02


class PipelineStart:
    """The activity pipeline as the demo runs it, each time from nothing: until the batch of its
    first query has ended. Spark is prepared, as it is after the set-up of a clone."""

    name = "pipeline_start"
    needs_java = True
    has_cluster = False

    def __init__(self, broker: Broker, setting: Setting) -> None:
        self._broker = broker
        self._runs = 0

    def prepare(self) -> None:
        self._topic = topics.create(self._broker, "pipeline-start", _PARTITIONS)
        common = ("--topic", self._topic, "--bootstrap", self._broker.address)
        count = ("--count", str(_RECORDS), "--fast")
        client.run([sys.executable, "-P", "-m", "ottla", "generate", "activity", *count, *common])
        prepare = [sys.executable, "-P", "-m", "ottla", "pipeline", "prepare"]
        client.run(prepare, patience_s=2 * _PATIENCE_S)

    def measure(self) -> Measures:
        begin_s = time.perf_counter()
        with self._pipeline() as pipeline:
            _wait_for(pipeline, lambda: "first result" in dict(pipeline.stages))
            elapsed_s = time.perf_counter() - begin_s
            return {"pipeline_start_s": elapsed_s, "pipeline_cpu_s": process.cpu_s(pipeline.pid)}

    def clean_up(self) -> None:
        topics.delete(self._broker, self._topic)

    def _pipeline(self) -> ChildPipeline:
        self._runs += 1
        prefix = f"{self._topic}-{self._runs}-"
        names = {"topics": self._topic, "output_prefix": prefix, "group_prefix": prefix}
        return ChildPipeline("activity", self._broker.address, names)


def _wait_for(pipeline: ChildPipeline, is_there: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + _PATIENCE_S
    while not is_there():
        if pipeline.exit_code() is not None:
            raise BenchError(f"the pipeline ended: {pipeline.reason()}")
        if time.monotonic() > deadline_s:
            raise BenchError(f"the pipeline was not there within {_PATIENCE_S:.0f} s")
        time.sleep(_LOOK_S)
