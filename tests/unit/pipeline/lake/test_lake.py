from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from ottla.pipeline.lake.lake import Lake, LakeCommit
from ottla.pipeline.lake.schema import LakeError
from tests.support.arrow_frame import arrow_frame


def test_tables_are_folders_of_the_root(tmp_path: Path) -> None:
    lake = Lake(f"file://{tmp_path}/")
    assert lake.table("a").uri == f"{tmp_path}/a"
    assert lake.names() == []
    lake.table("a").append(arrow_frame(pa.table({"n": [1]})), LakeCommit("q", 0))
    assert lake.names() == ["a"]


def test_other_stores_are_handed_on_to_deltalake() -> None:
    lake = Lake("s3://bucket/lake", {"AWS_REGION": "eu-central-1"})
    assert lake.table("a").uri == "s3://bucket/lake/a"
    assert lake.table("a").storage_options == {"AWS_REGION": "eu-central-1"}
    with pytest.raises(LakeError, match="cannot be listed"):
        lake.names()


@pytest.mark.parametrize("name", ["", "a/b", "..", ".hidden", "a b"])
def test_names_stay_inside_the_root(tmp_path: Path, name: str) -> None:
    with pytest.raises(LakeError, match="no name of a table"):
        Lake(tmp_path).table(name)


def test_a_batch_writes_to_a_table_once(tmp_path: Path) -> None:
    """The second write would be taken for the first one run again."""
    lake, commit, frame = Lake(tmp_path), LakeCommit("q", 0), arrow_frame(pa.table({"n": [1]}))
    assert lake.table("a").append(frame, commit)
    assert lake.table("b").append(frame, commit)
    with pytest.raises(LakeError, match=r"batch 0 writes to table a twice.*union"):
        lake.table("a").append(frame, commit)
