from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from ottla.pipeline.lake.lake import Lake, LakeCommit
from ottla.pipeline.lake.maintenance import compact, vacuum
from ottla.pipeline.lake.schema import LakeError
from ottla.pipeline.lake.table import LakeTable
from tests.support.arrow_frame import arrow_frame

# Some are escaped, and in more than one way, until they are names of files.
VALUES = [
    "plain",
    "a/b",
    "ü ñ",
    "100%",
    "%41",
    "x=y",
    "日本",
    "..",
    "'\"?#*[]{}^|<>`\\:;,",
    None,
]


@pytest.fixture
def table(tmp_path: Path) -> LakeTable:
    """Three batches, the last one with a new column, and rows of the first one changed."""
    table = Lake(tmp_path).table("t")
    for batch_id in range(3):
        added = {"new": VALUES} if batch_id == 2 else {}
        assert append(table, batch_id, n=[batch_id] * len(VALUES), p=VALUES, **added)
    return table


def append(table: LakeTable, batch_id: int, **columns: Any) -> bool:
    frame = arrow_frame(pa.table(columns))
    return table.append(frame, LakeCommit("q", batch_id), partition_by=["p"])


def rows(table: LakeTable) -> list[str]:
    return sorted(map(json.dumps, table.delta().to_pyarrow_table().to_pylist()))


def files(table: LakeTable) -> set[Path]:
    return set(Path(table.uri).rglob("*.parquet"))


def named(table: LakeTable) -> set[Path]:
    return set(map(Path, table.delta().file_uris()))


def make_old(table: LakeTable) -> None:
    """Every file is two hours old, and so is the removal of those that were removed."""
    for path in files(table):
        age(path)
    for path in Path(table.uri, "_delta_log").glob("*.json"):
        path.write_text(
            re.sub(
                r'"deletionTimestamp":(\d+)',
                lambda found: f'"deletionTimestamp":{int(found[1]) - 7_200_000}',
                path.read_text(),
            )
        )


def age(path: Path) -> None:
    then_s = path.stat().st_mtime - 7200
    os.utime(path, (then_s, then_s))


def test_rows_and_what_was_committed_outlast_it(table: LakeTable) -> None:
    before = rows(table)
    found = compact(table)
    assert (found.files_removed, found.files_added) == (3 * len(VALUES), len(VALUES))
    assert found.bytes_removed > found.bytes_added > 0
    assert rows(table) == before
    make_old(table)
    assert len(vacuum(table, retention_hours=1)) >= 3 * len(VALUES)
    assert files(table) == named(table)
    assert rows(table) == before
    assert not append(table, 2, n=[1], p=["x"])
    assert append(table, 3, n=[1], p=["x"])


def test_a_value_that_deltalake_itself_names_files_by_and_then_misses(table: LakeTable) -> None:
    for batch_id in (3, 4):
        append(table, batch_id, n=[batch_id], p=["~"])
    before = rows(table)
    compact(table)
    assert rows(table) == before


def test_batches_are_known_when_the_log_of_their_commits_is_gone(table: LakeTable) -> None:
    table.delta().alter.set_table_properties({"delta.logRetentionDuration": "interval 0 days"})
    table.delta().create_checkpoint()
    table.delta().cleanup_metadata()
    assert len(list(Path(table.uri, "_delta_log").glob("*.json"))) <= 1
    assert table.last_batch("q") == 2
    assert not append(table, 2, n=[1], p=["x"])


def test_only_old_files_that_nobody_names_are_deleted(table: LakeTable) -> None:
    failed = Path(table.uri, "p=plain", "part-failed.zstd.parquet")
    running = Path(table.uri, "p=new", "part-running.zstd.parquet")
    running.parent.mkdir()
    for path in (failed, running):
        path.write_bytes(b"")
    age(failed)
    before = files(table)
    orphans = vacuum(table, retention_hours=1, is_dry_run=True)
    assert str(failed.relative_to(table.uri)) in orphans
    assert files(table) == before
    vacuum(table, retention_hours=1)
    assert not failed.exists()
    assert running.exists()
    assert named(table) <= files(table)


def test_what_was_just_replaced_stays_for_its_readers(table: LakeTable) -> None:
    reader = table.delta()
    compact(table)
    vacuum(table, retention_hours=1)
    assert reader.to_pyarrow_table().num_rows == 3 * len(VALUES)


def test_no_retention_is_told(table: LakeTable) -> None:
    with pytest.raises(LakeError, match=r"table t: a retention of 0 hours.*one hour or more"):
        vacuum(table, retention_hours=0)


def test_an_upsert_that_was_quicker_is_told_when_it_always_is(
    table: LakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_args: object, **_options: object) -> None:
        raise deltalake.exceptions.CommitFailedError("busy")

    monkeypatch.setattr(deltalake.table.TableOptimizer, "compact", refuse)
    with pytest.raises(LakeError, match=r"table t could not be compacted in 3 attempts.*busy"):
        compact(table)
