from __future__ import annotations

import pytest
from pyspark import TaskContext

from ottla.pipeline.sink.turn import first_turn
from tests.support.task_context import Context


@pytest.mark.parametrize(("task", "batch", "turn"), [(0, None, 0), (3, None, 3), (3, 40, 43)])
def test_each_task_and_each_batch_of_a_stream_begins_elsewhere(
    monkeypatch: pytest.MonkeyPatch, task: int, batch: int | None, turn: int
) -> None:
    monkeypatch.setattr(TaskContext, "get", lambda: Context(task, batch=batch))
    assert first_turn() == turn


def test_outside_of_tasks() -> None:
    assert first_turn() == 0
