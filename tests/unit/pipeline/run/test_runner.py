"""What a query reads. How it runs is in tests/pipeline/test_runner.py: that needs Spark."""

from __future__ import annotations

import traceback
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.pipeline.jobs.job import Query, Settings
from ottla.pipeline.run.progress import QueryProgress
from ottla.pipeline.run.replay import Replay
from ottla.pipeline.run.runner import JobRun, source_options, start_patiently

QUERY = Query(
    name="loud",
    summary="",
    mode="append",
    transform=lambda rows: rows,
    write=lambda frame, batch: None,
    columns=("value", "timestamp"),
)
SETTINGS = Settings(bootstrap="one:1", folder=Path("job"), lake="lake", topics=("a", "b"))


def test_from_the_earliest_record_on() -> None:
    assert source_options("tiny", QUERY, SETTINGS, None) == {
        "kafka.bootstrap.servers": "one:1",
        "kafka.client.id": "ottla-pipeline-tiny-loud",
        "columns": "value,timestamp",
        "subscribe": "a,b",
        "startingOffsets": "earliest",
    }


def test_what_is_set_is_passed_on() -> None:
    settings = replace(
        SETTINGS,
        topics=(),
        topic_pattern="a.*",
        starting="7",
        max_offsets_per_trigger=1000,
        source={"minPartitions": "8", "columns": "value"},
    )
    found = source_options("tiny", QUERY, settings, None)
    assert "subscribe" not in found
    assert found["subscribePattern"] == "a.*"
    assert found["startingTimestamp"] == "7"
    assert found["startingOffsetsByTimestampStrategy"] == "latest"
    assert found["maxOffsetsPerTrigger"] == "1000"
    assert (found["minPartitions"], found["columns"]) == ("8", "value")


def test_a_replay_starts_at_its_time() -> None:
    found = source_options("tiny", QUERY, SETTINGS, Replay(from_ms=9))
    assert found["startingTimestamp"] == "9"
    assert "startingOffsets" not in found


def test_a_query_may_know_better() -> None:
    query = replace(QUERY, starting_offsets=lambda: '{"a":{"0":5}}')
    found = source_options("tiny", query, replace(SETTINGS, starting="7"), None)
    assert found["startingOffsets"] == '{"a":{"0":5}}'
    assert "startingTimestamp" not in found


SLOW = RuntimeError("[STREAM_FAILED] ... Python worker failed to connect back.")


@dataclass
class Handle:
    """Of a query that initialises its sources, and then runs or has failed."""

    error: Exception | None = None
    messages: list[str] = field(
        default_factory=lambda: ["Initializing sources", "Getting offsets from", "Processing"]
    )

    @property
    def isActive(self) -> bool:
        return self.error is None or len(self.messages) > 1

    @property
    def status(self) -> dict[str, str]:
        return {"message": self.messages.pop(0)}

    def exception(self) -> Exception | None:
        return self.error


def started(*found: Handle | Exception) -> Any:
    left = list(found)

    def start() -> Any:
        one = left.pop(0)
        if isinstance(one, Exception):
            raise one
        return one

    return start_patiently(start)


def test_a_query_that_runs() -> None:
    handle = Handle()
    assert started(handle) is handle
    assert handle.messages == []


def test_one_whose_python_was_slow_is_started_again() -> None:
    handle = Handle()
    assert started(Handle(SLOW), SLOW, handle) is handle


def test_one_that_fails_is_not() -> None:
    failed = Handle(ValueError("something else"))
    assert started(failed) is failed
    with pytest.raises(ValueError, match="something else"):
        started(ValueError("something else"))


def test_not_for_ever() -> None:
    last = Handle(SLOW)
    assert started(*[Handle(SLOW) for _ in range(4)], last) is last
    with pytest.raises(RuntimeError, match="failed to connect back"):
        started(*[SLOW] * 5)


def test_spark_is_told_in_short_what_a_write_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    """Traces of Java in it overflow the stack of Spark."""
    raised = RuntimeError("py4j.protocol.Py4JJavaError: An error occurred while calling\n" * 1000)

    def write_batch(*_: Any) -> None:
        raise raised

    monkeypatch.setattr(JobRun, "_write_batch", write_batch)
    run, one = JobRun.__new__(JobRun), SimpleNamespace(error=None)
    with pytest.raises(Exception, match="RuntimeError: py4j") as told:
        run._write(one, None, 0)  # type: ignore[arg-type]
    assert one.error is raised
    assert len("".join(traceback.format_exception(told.value))) < 2000


class _Handle:
    """Stands for a StreamingQuery."""

    def __init__(self) -> None:
        self.isActive = True
        self.status = {"isTriggerActive": True}

    def stop(self) -> None:
        self.isActive = False


def test_a_query_is_stopped_when_it_has_no_batch_in_hand() -> None:
    job_run = JobRun.__new__(JobRun)
    names = ("busy", "idle", "waiting")
    progress = {name: QueryProgress("job", name, "group") for name in names}
    started: Any = [
        SimpleNamespace(query=SimpleNamespace(name=name), progress=progress[name], handle=_Handle())
        for name in names
    ]
    busy, idle, waiting = started
    waiting.handle = None
    idle.handle.status = {"isTriggerActive": False}
    job_run._queries, job_run._batches_at_stop = started, None

    assert job_run.stop_after_batch()
    assert (busy.handle.isActive, idle.handle.isActive) == (True, False)
    progress["busy"].batches += 1
    assert not job_run.stop_after_batch()
    assert not busy.handle.isActive
