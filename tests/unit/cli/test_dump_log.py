"""`ottla dump-log`: what it prints and how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ottla.cli.main import main
from ottla.records.builder import build_batch
from ottla.records.record import Record

TIME = 1_700_000_000_123


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A data dir with one partition."""
    partition = tmp_path / "clicks-0"
    partition.mkdir()
    records = [
        Record(0, TIME, b"k", "ünï\x1b".encode(), (("h", b"1"), ("n", None))),
        Record(1, TIME, None, b"\xff"),
    ]
    content = build_batch(records, leader_epoch=0, producer_id=7, producer_epoch=1, base_sequence=0)
    (partition / "00000000000000000000.log").write_bytes(content)
    (partition / "00000000000000000000.index").write_bytes(b"")
    (partition / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    (partition / "notes.txt").write_text("not ours")
    return tmp_path


def test_a_folder_is_shown_file_by_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dump-log", "--records", str(folder / "clicks-0")]) == 0

    out = capsys.readouterr().out
    assert f"{folder}/clicks-0/00000000000000000000.index (0 bytes)\n  empty\n" in out
    assert (
        "offsets 0-1  count 2  size 90  none  2023-11-14T22:13:20.123Z (create)  leader epoch 0"
        "  producer 7 epoch 1 sequence 0-1" in out
    )
    assert (
        '  | offset 0  2023-11-14T22:13:20.123Z  key "k"  value "ünï\\u001b"  headers h="1" n=null'
        in out
    )
    assert "  | offset 1  2023-11-14T22:13:20.123Z  key null  value 0xff" in out
    assert "  epoch 0  start offset 0\n" in out
    assert "notes" not in out


def test_json_is_a_line_an_entry(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(folder / "clicks-0" / "00000000000000000000.log")
    assert main(["dump-log", "--records", "--json", path]) == 0

    batch, first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert (batch["file"], batch["type"], batch["count"]) == (path, "batch", 2)
    assert first == {
        "file": path,
        "type": "record",
        "offset": 0,
        "timestamp": TIME,
        "key": "k",
        "value": "ünï\x1b",
        "headers": [{"key": "h", "value": "1"}, {"key": "n", "value": None}],
    }
    assert second["value_base64"] == "/w=="


def test_check_says_only_what_is_wrong(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dump-log", "--check", str(folder)]) == 0
    assert capsys.readouterr().out == "3 files are sound\n"

    path = folder / "clicks-0" / "00000000000000000000.log"
    path.write_bytes(path.read_bytes()[:-1])
    assert main(["dump-log", "--check", str(folder)]) == 1

    captured = capsys.readouterr()
    assert captured.out.startswith(f"{path}: the batch at position 0 is cut off")
    assert captured.out.count("\n") == 1
    assert captured.err == "ottla: 1 problem found in 3 files\n"


def test_a_problem_in_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder / "clicks-0" / "leader-epoch-checkpoint"
    path.write_text("9\n0\n")
    assert main(["dump-log", "--json", str(path)]) == 1

    line = json.loads(capsys.readouterr().out)
    assert (line["type"], line["file"]) == ("problem", str(path))
    assert "version" in line["problem"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("nothing", "there is no file"),
        ("clicks-0/notes.txt", "does not have the name of a log file"),
        ("empty", "has no files of a log"),
    ],
)
def test_what_can_not_be_shown(
    folder: Path, name: str, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "empty").mkdir()

    assert main(["dump-log", str(folder / name)]) == 1
    assert reason in capsys.readouterr().err
