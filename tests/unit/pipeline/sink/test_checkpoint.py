from __future__ import annotations

import json
from pathlib import Path

import pytest

from ottla.kernel.ids import TopicId, TopicPartition, topic_id_text
from ottla.pipeline.sink.checkpoint import Checkpoint, CheckpointError
from ottla.pipeline.source.offsets import Position

ID = TopicId(bytes(range(16)))
OURS = json.dumps({"clicks": {"0": 7, "1": 3}, "@topicIds": {"clicks": topic_id_text(ID)}})
SPARKS = '{"clicks":{"1":2},"views":{"0":9}}'
METADATA = '{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{}}'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "metadata").write_text('{"id":"1-2-3"}')
    for name in ("offsets", "commits"):
        (tmp_path / name).mkdir()
    return tmp_path


def plan(folder: Path, batch_id: int, *sources: str, version: str = "v1") -> None:
    (folder / "offsets" / str(batch_id)).write_text("\n".join([version, METADATA, *sources]))


def test_the_query_is_told_by_its_id(folder: Path) -> None:
    assert Checkpoint(str(folder)).query_id() == "1-2-3"
    assert Checkpoint(folder.as_uri()).query_id() == "1-2-3"


def test_offsets_of_a_batch(folder: Path) -> None:
    plan(folder, 0, OURS)
    found = Checkpoint(str(folder)).offsets(0)
    assert found.offsets == {TopicPartition("clicks", 0): 7, TopicPartition("clicks", 1): 3}
    assert found.topic_ids == {"clicks": ID}


def test_of_several_inputs_those_that_are_topics_count_as_far_as_all_have_read(
    folder: Path,
) -> None:
    plan(folder, 0, OURS, "-", "42", '{"logOffset":3}', SPARKS)
    assert Checkpoint(str(folder)).offsets(0).offsets == {
        TopicPartition("clicks", 0): 7,
        TopicPartition("clicks", 1): 2,
        TopicPartition("views", 0): 9,
    }


def test_sources_may_be_named(folder: Path) -> None:
    plan(folder, 0, f"0:{OURS}", "rates:-", f"views:{SPARKS}", version="v2")
    assert Checkpoint(str(folder)).offsets(0).offsets == {
        TopicPartition("clicks", 0): 7,
        TopicPartition("clicks", 1): 2,
        TopicPartition("views", 0): 9,
    }


def test_a_batch_starts_where_the_one_before_ended(folder: Path) -> None:
    plan(folder, 0, SPARKS)
    plan(folder, 1, OURS)
    checkpoint = Checkpoint(str(folder))
    assert checkpoint.starts(1) == checkpoint.offsets(0)
    assert checkpoint.starts(0).offsets == {}


def test_the_first_batch_of_our_own_source_knows_where_it_begins(folder: Path) -> None:
    begun = {TopicPartition("clicks", 0): 7}
    plan(folder, 0, json.dumps(Position({TopicPartition("clicks", 0): 23}, {}, begun).to_json()))
    assert Checkpoint(str(folder)).starts(0).offsets == begun
    assert Checkpoint(str(folder)).offsets(0).offsets == {TopicPartition("clicks", 0): 23}


def test_what_is_being_written_does_not_count(folder: Path) -> None:
    checkpoint = Checkpoint(str(folder))
    assert (checkpoint.last_planned(), checkpoint.last_committed()) == (None, None)
    for batch_id in (2, 10):
        plan(folder, batch_id, OURS)
    (folder / "offsets" / ".11.a6b1.tmp").write_text("v1")
    (folder / "offsets" / ".10.crc").write_text("")
    (folder / "commits" / "2").write_text("v1\n{}")
    assert (checkpoint.last_planned(), checkpoint.last_committed()) == (10, 2)


def test_a_folder_that_is_no_checkpoint(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(CheckpointError, match="is it the checkpoint of a query"):
        Checkpoint(str(tmp_path / "other")).query_id()
    assert Checkpoint(str(tmp_path / "other")).last_planned() is None
    plan(folder, 3, version="v9")
    with pytest.raises(CheckpointError, match="is of version v9"):
        Checkpoint(str(folder)).offsets(3)
