"""Which checkpoints there are after a replay was begun, and after a crash in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.pipeline.lake.lake import LakeCommit
from ottla.pipeline.run.replay import Replay, ReplayCommit, begin_replay, checkpoints_of, replay_of


def names_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def with_checkpoints(folder: Path) -> Path:
    query = folder / "checkpoints" / "traffic"
    query.mkdir(parents=True)
    (query / "metadata").write_text("{}")
    return folder


def test_checkpoints_are_new_and_say_from_when(tmp_path: Path) -> None:
    assert replay_of(checkpoints_of(with_checkpoints(tmp_path))) is None
    begin_replay(tmp_path, Replay(from_ms=7))
    assert names_in(tmp_path) == ["checkpoints/replay.json"]
    assert replay_of(checkpoints_of(tmp_path)) == Replay(from_ms=7)


def test_a_job_that_has_never_run(tmp_path: Path) -> None:
    begin_replay(tmp_path / "job", Replay(from_ms=7))
    assert replay_of(checkpoints_of(tmp_path / "job")) == Replay(from_ms=7)


def test_a_second_replay_takes_the_place_of_the_first(tmp_path: Path) -> None:
    begin_replay(with_checkpoints(tmp_path), Replay(from_ms=7))
    begin_replay(tmp_path, Replay(from_ms=8))
    assert replay_of(checkpoints_of(tmp_path)) == Replay(from_ms=8)


@pytest.mark.parametrize("renames", [1, 2, 3])
def test_a_crash_leaves_the_old_or_the_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, renames: int
) -> None:
    """Renames are what changes something: it dies before one of them."""
    left = renames
    rename = Path.rename

    def dying(path: Path, target: Path) -> Path:
        nonlocal left
        left -= 1
        if left < 1:
            raise SystemExit
        return rename(path, target)

    with_checkpoints(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", dying)
        with pytest.raises(SystemExit):
            begin_replay(tmp_path, Replay(from_ms=7))
    expected = Replay(from_ms=7) if renames == 3 else None
    assert replay_of(checkpoints_of(tmp_path)) == expected
    found = [name for name in names_in(tmp_path) if not name.startswith("checkpoints.making")]
    assert found == ["checkpoints/replay.json" if expected else "checkpoints/traffic/metadata"]


def test_the_first_commit_of_a_query_replaces_a_table() -> None:
    committed: set[str] = set()
    commit = ReplayCommit(LakeCommit("id", 3, {"clicks": {}}), committed.__contains__)
    assert (commit.query_id, commit.batch_id, commit.offsets) == ("id", 3, {"clicks": {}})
    commit.begin("pages")
    assert commit.is_replacing
    committed.add("searches")
    commit.begin("searches")
    assert not commit.is_replacing
