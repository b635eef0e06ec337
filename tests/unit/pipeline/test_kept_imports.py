"""That a worker does not look for garbage in what stays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

from ottla.pipeline.jobs import logs, metrics
from ottla.pipeline.kept_imports import keep_imports
from ottla.pipeline.lake.files import FilesWriter
from ottla.pipeline.sink.placement import packed_rows
from ottla.pipeline.sink.sink import _Task
from ottla.pipeline.sink.write_options import WriteOptions
from ottla.pipeline.source.read_options import ReadOptions
from ottla.pipeline.source.source import read_ranges
from tests.support.socket_broker import SocketBroker
from tests.support.task_context import Context

Run = Callable[[], object]


def in_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark.TaskContext.get", lambda: Context(0))


def test_once_in_a_worker_and_never_on_a_driver(
    freezes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_imports()
    assert freezes == []
    in_a_task(monkeypatch)
    keep_imports()
    keep_imports()
    assert freezes == [1]


def tasks(broker: SocketBroker, folder: str) -> dict[str, Run]:
    options = {"kafka.bootstrap.servers": f"127.0.0.1:{broker.port}"}
    written = WriteOptions.parse({**options, "topic": "clicks"})
    none: list[Any] = []

    def all_of(work: Callable[..., Iterator[Any]], *given: Any) -> Run:
        return lambda: list(work(*given))

    return {
        "read": all_of(read_ranges, ReadOptions.parse({**options, "subscribe": "clicks"}), none),
        "pack": all_of(partial(packed_rows, options=written), iter(none)),
        "write": lambda: _Task(written, None).write(iter(none)),
        "lake": all_of(FilesWriter(folder, {}, pa.schema([]), ()), iter(none)),
        "lines": all_of(partial(logs._parsed_batches, names=()), iter(none)),
        "samples": all_of(metrics._whole, iter(none)),
        "broken samples": all_of(metrics._broken, iter(none)),
    }


@pytest.mark.parametrize(
    "name", ["read", "pack", "write", "lake", "lines", "samples", "broken samples"]
)
def test_each_kind_of_task_does(
    name: str,
    broker: SocketBroker,
    freezes: list[int],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Any,
) -> None:
    in_a_task(monkeypatch)
    tasks(broker, tmp_path.as_uri())[name]()
    assert freezes == [1]
