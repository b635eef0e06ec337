from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ottla.cli.demo_folder import DemoFolder

OWNER = """
import sys
from ottla.cli.demo_folder import DemoFolder
folder = DemoFolder("broker")
print(folder.path, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@contextmanager
def owner(temporary: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Another process with a folder."""
    with subprocess.Popen(
        [sys.executable, "-c", OWNER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(temporary)},
    ) as process:
        assert process.stdout is not None
        yield process, Path(process.stdout.readline().strip())
        process.kill()


def test_it_goes_with_what_is_in_it(temporary: Path) -> None:
    folder = DemoFolder("broker")
    (Path(folder.path) / "data").mkdir()
    assert os.listdir(temporary) == [os.path.basename(folder.path)]
    folder.remove(0.0)
    assert os.listdir(temporary) == []
    folder.remove(0.0)


def test_that_of_a_killed_process_goes_and_that_of_a_living_one_stays(temporary: Path) -> None:
    with owner(temporary) as (killed, left), owner(temporary) as (_, used):
        assert left.parent == used.parent == temporary
        (left / "data").mkdir()
        killed.kill()
        killed.wait()
        folder = DemoFolder("pipeline")
        assert set(temporary.iterdir()) == {used, Path(folder.path)}
        folder.remove(0.0)


def test_a_child_does_not_hold_it(temporary: Path) -> None:
    """It may outlive its parent for a moment."""
    folder = DemoFolder("broker")
    with subprocess.Popen(["sleep", "600"], close_fds=False) as child:
        os.close(folder._lock)  # as at the end of this process
        DemoFolder("broker").remove(0.0)
        assert not os.path.exists(folder.path)
        child.kill()


def test_what_is_not_of_a_demo_stays(temporary: Path) -> None:
    page = temporary / "ottla-demo-1.html"
    page.touch()
    other = temporary / "other"
    other.mkdir()
    (other / "lock").touch()
    (temporary / "ottla-demo-link").symlink_to(other)
    without_lock = temporary / "ottla-demo-broker-new"
    without_lock.mkdir()
    DemoFolder("broker").remove(0.0)
    assert {one.name for one in temporary.iterdir()} == {
        "ottla-demo-1.html",
        "other",
        "ottla-demo-link",
        "ottla-demo-broker-new",
    }
    assert (other / "lock").exists()
