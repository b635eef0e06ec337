"""What is remembered of a query's batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ottla.pipeline.run.progress import HISTORY, BatchProgress, ProgressFolder, QueryProgress


def said(**fields: Any) -> dict[str, Any]:
    """As Spark 4.3 says it, without what is not looked at."""
    source = {
        "description": "PythonMicroBatchStream",
        "startOffset": None,
        "endOffset": {"clicks": {"0": 400}, "@topicIds": {"clicks": "CQ37mB_PQSyPE9P5esC8BQ"}},
        "latestOffset": {
            "clicks": {"0": 1000, "1": 7},
            "@topicIds": {"clicks": "CQ37mB_PQSyPE9P5esC8BQ"},
        },
    }
    return {
        "name": "traffic",
        "timestamp": "2026-11-15T18:38:30.403Z",
        "batchId": 3,
        "batchDuration": 417,
        "numInputRows": 400,
        "processedRowsPerSecond": 959.2,
        "eventTime": {"watermark": "2026-11-15T18:35:00.000Z"},
        "sources": [source],
        **fields,
    }


def test_a_batch() -> None:
    assert BatchProgress.parse(said()) == BatchProgress(
        query="traffic",
        batch_id=3,
        time="2026-11-15T18:38:30.403Z",
        rows=400,
        rows_per_s=959.2,
        batch_ms=417,
        watermark="2026-11-15T18:35:00.000Z",
        lag=607,
    )


@pytest.mark.parametrize(
    "fields", [{"eventTime": {}}, {"eventTime": {"watermark": "1970-01-01T00:00:00.000Z"}}]
)
def test_before_the_first_event_there_is_no_watermark(fields: dict[str, Any]) -> None:
    assert BatchProgress.parse(said(**fields)).watermark is None


def test_other_sources_have_no_lag() -> None:
    source = {"description": "rate", "endOffset": 7, "latestOffset": None}
    assert BatchProgress.parse(said(sources=[source])).lag is None


def test_it_is_the_same_when_it_is_read(tmp_path: Path) -> None:
    folder = ProgressFolder(tmp_path)
    assert folder.read("traffic") is None
    progress = QueryProgress("activity", "traffic", "my-group")
    folder.write(progress)
    assert folder.read("traffic") == progress
    for number in range(2 * HISTORY):
        progress.add(BatchProgress.parse(said(batchId=number, batchDuration=number)))
    folder.write(progress)
    assert folder.read("traffic") == progress
    assert (progress.batches, progress.rows) == (2 * HISTORY, 2 * HISTORY * 400)
    assert progress.batch_ms == list(range(HISTORY, 2 * HISTORY))
    assert folder.queries() == ["traffic"]


@pytest.mark.parametrize("text", ["", "[]", '{"job":"activity"}', '{"last":null,"of_old":1}'])
def test_a_file_that_cannot_be_read_is_none(tmp_path: Path, text: str) -> None:
    """A machine that went down has left it empty, or it is of another version: it only shows
    something, and the job must start."""
    folder = ProgressFolder(tmp_path)
    folder.write(QueryProgress("activity", "traffic", "group"))
    (tmp_path / "progress" / "traffic.json").write_text(text)
    assert folder.read("traffic") is None
