"""A pipeline as a child process, with a program in its place that says what a pipeline would."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from threading import Thread

import psutil
import pytest

from ottla.cli.child_pipeline import ChildPipeline

LINES = """#!/bin/sh
echo "$@" > "$TMPDIR/../arguments"
echo '{"event": "stage", "stage": "Java", "seconds": 1.5}'
echo '{"event": "batch", "query": "top", "rows": 3, "lag": 1}'
echo '[3.210s][warning][codecache] CodeCache is full. Compiler has been disabled.'
echo '7'
echo '{"event": "batch", "query": "top", "rows": 4, "lag": 0}'
echo '{"event": "stage", "stage": "first result", "seconds": 2.5}'
echo '{"event": "batch", "query": "events", "rows": 5, "lag": null}'
"""


@pytest.fixture(autouse=True)
def temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def use_program(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    program = folder / "program"
    program.write_text(text)
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))


def test_it_tells_how_far_queries_are(
    temporary_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A grandchild stands for the JVM.
    use_program(temporary_folder, monkeypatch, f"{LINES}sleep 600 & echo $! > $TMPDIR/../pid; wait")

    with ChildPipeline("activity", "here:1", {"trigger_s": "2"}) as pipeline:
        while "events" not in pipeline.last or not (temporary_folder / "pid").exists():
            time.sleep(0.01)
        assert pipeline.exit_code() is None
        # What was no JSON of ours is kept, and does not end the reading.
        assert pipeline.reason() == "7"
        grandchild = psutil.Process(int((temporary_folder / "pid").read_text()))

    assert pipeline.rows == {"top": 7, "events": 5}
    assert pipeline.last["top"]["lag"] == 0
    assert [name for name, _ in pipeline.stages] == ["Java", "first result"]
    seconds = [seconds for _, seconds in pipeline.stages]
    assert 0 < seconds[0] <= seconds[1]
    arguments = (temporary_folder / "arguments").read_text()
    assert "-m ottla pipeline run activity --json --bootstrap here:1 --folder" in arguments
    assert "--set trigger_s=2" in arguments
    # Nobody may be there to take note of its end: then it is a zombie.
    assert not grandchild.is_running() or grandchild.status() == psutil.STATUS_ZOMBIE
    assert sorted(os.listdir(temporary_folder)) == ["arguments", "pid", "program"]


def test_another_thread_may_end_it(temporary_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one does that hears of a second Ctrl-C."""
    ChildPipeline("activity", "here:1", {}).end()
    assert os.listdir(temporary_folder) == []

    use_program(temporary_folder, monkeypatch, "#!/bin/sh\nexec sleep 600\n")
    with ChildPipeline("activity", "here:1", {}) as pipeline:
        thread = Thread(target=pipeline.end)
        thread.start()
        thread.join()
        assert os.listdir(temporary_folder) == ["program"]
    assert pipeline.exit_code() == -signal.SIGKILL


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("WARNING: Java\nottla: Spark starts\nottla: no topic\n  at Java", "no topic"),
        ("WARNING: Java\nkilled", "killed"),
        ("", "it said nothing"),
    ],
)
def test_one_that_fails_says_why(
    temporary_folder: Path, monkeypatch: pytest.MonkeyPatch, said: str, reason: str
) -> None:
    use_program(temporary_folder, monkeypatch, f"#!/bin/sh\nprintf '{said}' >&2\nexit 1\n")

    with ChildPipeline("activity", "here:1", {}) as pipeline:
        while pipeline.exit_code() is None:
            time.sleep(0.01)
        assert (pipeline.exit_code(), pipeline.reason()) == (1, reason)

    assert os.listdir(temporary_folder) == ["program"]
