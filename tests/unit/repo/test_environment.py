"""What ./ottla and ./test do before anything else. uv is a stand-in here that only notes how it
was called, so that nothing is downloaded."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ottla import __version__

ROOT = Path(__file__).resolve().parents[3]

UV = """#!/bin/sh
echo "$1 $2" >>"$ROOT/calls"
if [ -e "$ROOT/fail-at-$1" ]; then exit 3; fi
if [ "$1" = venv ]; then
    for folder; do :; done
    mkdir -p "$folder/bin"
    printf '#!/bin/sh\\necho "runs $*"\\n' >"$folder/bin/python"
    chmod +x "$folder/bin/python"
fi
"""


class Clone:
    """A copy of the scripts, without the rest, and a PATH with little on it."""

    def __init__(self, root: Path, *, python: str | None = sys.executable, uv: bool = True) -> None:
        self.root = root
        root.mkdir()
        shutil.copytree(ROOT / "tools", root / "tools", ignore=shutil.ignore_patterns("__py*"))
        shutil.copytree(ROOT / "requirements", root / "requirements")
        for name in ("ottla", "pyproject.toml"):
            shutil.copy(ROOT / name, root / name)
        self.path = root / "path"
        self.path.mkdir()
        for name in ("sh", "cat", "cmp", "dirname", "readlink", "mkdir", "chmod"):
            self.put(name, f'#!/bin/sh\nexec {shutil.which(name)} "$@"\n')
        if python:
            self.put("python3.11", f'#!/bin/sh\nexec {python} "$@"\n')
        if uv:
            self.put("uv", UV)

    def put(self, name: str, script: str) -> None:
        (self.path / name).write_text(script)
        (self.path / name).chmod(0o755)

    def run(self, *args: str, command: str | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [command or str(self.root / "ottla"), *args],
            env={"PATH": str(self.path), "ROOT": str(self.root)},
            capture_output=True,
            text=True,
            check=False,
        )

    def calls(self) -> list[str]:
        """What uv was asked for since the last time."""
        calls = self.root / "calls"
        lines = calls.read_text().splitlines() if calls.exists() else []
        calls.unlink(missing_ok=True)
        return lines


WHOLE_SET_UP = ["venv --quiet", "pip install", "pip install"]


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    return Clone(tmp_path / "clone")


def test_the_first_run_sets_up_and_says_so(clone: Clone) -> None:
    done = clone.run("topics", "list me")
    assert done.stdout == "runs -P -m ottla topics list me\n"
    assert "setting up .venv with uv" in done.stderr
    assert clone.calls() == WHOLE_SET_UP


def test_the_second_run_does_nothing_but_run(clone: Clone) -> None:
    clone.run()
    clone.calls()
    done = clone.run("--version")
    assert (done.stdout, done.stderr) == ("runs -P -m ottla --version\n", "")
    assert clone.calls() == []


@pytest.mark.parametrize("command", ["bench", "demo", "pipeline"])
def test_what_needs_spark_has_it_installed(clone: Clone, command: str) -> None:
    clone.run("topics", "list")
    clone.calls()
    assert "installing requirements/pipeline.txt" in clone.run(command, "--help").stderr
    assert clone.calls() == WHOLE_SET_UP[1:]
    assert (clone.run(command).stderr, clone.run("topics").stderr) == ("", "")


@pytest.mark.parametrize("name", ["pyproject.toml", "requirements/run.txt"])
def test_changed_dependencies_are_installed_into_what_is_there(clone: Clone, name: str) -> None:
    clone.run()
    clone.calls()
    with open(clone.root / name, "a") as file:
        file.write("# changed\n")
    assert clone.run().returncode == 0
    assert clone.calls() == WHOLE_SET_UP[1:]
    clone.run()
    assert clone.calls() == []


@pytest.mark.parametrize("step", ["venv", "pip"])
def test_a_set_up_that_broke_off_is_redone_from_the_start(clone: Clone, step: str) -> None:
    marker = clone.root / f"fail-at-{step}"
    marker.touch()
    done = clone.run()
    assert done.returncode == 1
    assert "set-up failed" in done.stderr
    marker.unlink()
    clone.calls()
    assert clone.run().returncode == 0
    assert clone.calls() == WHOLE_SET_UP


def test_a_moved_clone_is_set_up_for_its_new_place(clone: Clone) -> None:
    clone.run()
    clone.calls()
    clone.root = clone.root.rename(clone.root.with_name("moved"))
    clone.path = clone.root / "path"
    assert clone.run().returncode == 0
    assert clone.calls() == WHOLE_SET_UP[1:]


def test_a_python_that_went_away_is_replaced(clone: Clone) -> None:
    clone.run()
    clone.calls()
    (clone.root / ".venv/bin/python").unlink()
    assert clone.run().returncode == 0
    assert clone.calls() == WHOLE_SET_UP


def test_several_at_once_set_up_once(clone: Clone) -> None:
    command = [str(clone.root / "ottla"), "x"]
    environment = {"PATH": str(clone.path), "ROOT": str(clone.root)}
    running = [
        subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        for _ in range(4)
    ]
    assert [process.communicate()[0] for process in running] == ["runs -P -m ottla x\n"] * 4
    assert clone.calls() == WHOLE_SET_UP


def test_it_is_found_through_links_and_from_elsewhere(
    clone: Clone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    os.symlink("clone/ottla", tmp_path / "first")
    os.symlink(tmp_path / "first", tmp_path / "second")
    assert clone.run("x", command="./second").stdout == "runs -P -m ottla x\n"


def test_without_any_python_it_says_what_is_needed(tmp_path: Path) -> None:
    clone = Clone(tmp_path / "clone", python=None, uv=False)
    done = clone.run()
    assert done.returncode == 1
    assert done.stderr.startswith("ottla: needs Python 3.11 or newer")


def test_an_old_python_is_not_taken(tmp_path: Path) -> None:
    clone = Clone(tmp_path / "clone", uv=False, python=None)
    clone.put("python3", '#!/bin/sh\necho "Python 3.9"\nexit 1\n')
    assert "needs Python 3.11 or newer" in clone.run().stderr


def test_ottla_of_this_clone_answers() -> None:
    done = subprocess.run([ROOT / "ottla", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"ottla {__version__}\n"
