"""What ./ottla and ./test do before anything else. uv is a stand-in here that only notes how it
was called, so that nothing is downloaded."""

from __future__ import annotations

import os
import pty
import re
import shutil
import signal
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import psutil
import pytest

from ottla import __version__
from tests.support.terminal import Terminal
from tools.environment import PROFILES

ROOT = Path(__file__).resolve().parents[3]

UV = """#!/bin/sh
echo "$1 $2" >>"$ROOT/calls"
if [ -e "$ROOT/wait-at-$1" ]; then
    rm "$ROOT/wait-at-$1"
    while :; do sleep 0.01; done
fi
case "$*" in *--requirement*) if [ -e "$ROOT/output" ]; then cat "$ROOT/output"; fi ;; esac
if [ -e "$ROOT/fail-at-$1" ]; then exit 3; fi
if [ "$1" = venv ]; then
    for folder; do :; done
    mkdir -p "$folder/bin"
    cat >"$folder/bin/python" <<'PYTHON'
#!/bin/sh
echo "runs $*"
case "$*" in *prepare)
    if [ -e "$ROOT/wait-at-prepare" ]; then
        trap 'echo >"$ROOT/tidied"; exit 130' TERM
        rm "$ROOT/wait-at-prepare"
        while :; do sleep 0.01; done
    fi
    exit $PREPARED
    ;;
esac
PYTHON
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
        for name in ("sh", "cat", "cmp", "dirname", "readlink", "mkdir", "chmod", "rm", "sleep"):
            self.put(name, f'#!/bin/sh\nexec {shutil.which(name)} "$@"\n')
        if python:
            self.put("python3.11", f'#!/bin/sh\nexec {python} "$@"\n')
        if uv:
            self.put("uv", UV)

    def put(self, name: str, script: str) -> None:
        (self.path / name).write_text(script)
        (self.path / name).chmod(0o755)

    def run(
        self, *args: str, command: str | None = None, prepared: int = 0
    ) -> subprocess.CompletedProcess[str]:
        """`prepared` is the exit code of what prepares Spark."""
        return subprocess.run(
            [command or str(self.root / "ottla"), *args],
            env={"PATH": str(self.path), "ROOT": str(self.root), "PREPARED": str(prepared)},
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


@pytest.mark.parametrize("command", ["bench", "demo", "pipeline run", "pipeline prepare"])
def test_what_runs_spark_has_it_installed_and_is_told_how_large_it_is(
    clone: Clone, command: str
) -> None:
    clone.run("topics", "list")
    clone.calls()
    said = clone.run(*command.split()).stderr
    assert "requirements/pipeline.txt): up to 650 MB to download, 1100 MB on disk" in said
    assert clone.calls() == WHOLE_SET_UP[1:]
    assert (clone.run(*command.split()).stderr, clone.run("topics").stderr) == ("", "")


def test_spark_is_prepared_once_and_does_without(clone: Clone) -> None:
    prepares = "runs -P -m ottla pipeline prepare\n"
    assert prepares not in clone.run("topics").stderr
    done = clone.run("demo", prepared=1)
    assert (done.returncode, done.stdout) == (0, "runs -P -m ottla demo\n")
    assert prepares in done.stderr
    assert "Spark is not prepared and starts slower; to try again: ./ottla pipeline" in done.stderr
    assert clone.run("demo").stderr == ""


def test_control_c_while_spark_is_prepared_keeps_what_is_installed(clone: Clone) -> None:
    """It took minutes to download, and all of it is there."""
    (clone.root / "wait-at-prepare").touch()
    environment = {"PATH": str(clone.path), "ROOT": str(clone.root), "PREPARED": "0"}
    with Terminal([], environment, command=[str(clone.root / "ottla"), "demo"]) as terminal:
        while (clone.root / "wait-at-prepare").exists():
            terminal.watch(0.01)
        terminal.press_control_c()
        assert terminal.wait(60) in (130, -signal.SIGINT)
        _, alive = psutil.wait_procs(terminal.left(), timeout=60)
        assert alive == []
    said = terminal.text.rpartition("^C")[2].split("\r")[-1]
    assert said == (
        "ottla: Spark is not prepared and starts slower; to try again: ./ottla pipeline prepare\n"
    )
    assert (clone.root / "tidied").exists()  # it was asked to end, and could remove its files
    clone.calls()
    assert (clone.run("demo").stderr, clone.calls()) == ("", [])


@pytest.mark.parametrize(
    "command",
    [
        "demo --help",
        "demo -h",
        "demo --small",
        "bench --help",
        "pipeline",
        "pipeline --help",
        "pipeline list",
        "pipeline describe logs",
        "pipeline status",
        "pipeline show activity",
        "pipeline run --help",
    ],
)
def test_help_and_what_needs_no_spark_install_none(clone: Clone, command: str) -> None:
    clone.run("topics", "list")
    clone.calls()
    assert clone.run(*command.split()).stderr == ""
    assert clone.calls() == []


OF_UV = """
Resolved 24 packages in 4.03s
Downloading pyarrow (52.5MiB)
 Downloaded pyarrow
   Building pyspark==4.3.0
      Built pyspark==4.3.0
Prepared 14 packages in 22.99s
Installed 14 packages in 52ms
 + pyspark==4.3.0
"""
OF_PIP = """
Collecting click==8.5.1
  Downloading click-8.5.1-py3-none-any.whl (126 kB)
     ━━━━━━━━━━━━━━━━━━━━━━ 126.2/126.2 kB 172.9 MB/s eta 0:00:00
  Downloading pyarrow-26.0.1-cp311-cp311-manylinux_2_28_x86_64.whl (55.0 MB)
  Downloading pyspark-4.3.0.tar.gz (455.9 MB)
  Installing build dependencies: started
Building wheels for collected packages: pyspark
  Building wheel for pyspark (pyproject.toml): started
  Building wheel for pyspark (pyproject.toml): finished with status 'done'
Installing collected packages: pytz, py4j
"""


@pytest.mark.parametrize(
    ("output", "steps"),
    [
        (
            OF_UV,
            [
                "downloading pyarrow (52.5 MiB)",
                "downloading the rest",
                "building pyspark",
                "installing into .venv",
            ],
        ),
        (
            OF_PIP,
            [
                "downloading pyarrow (55.0 MB)",
                "downloading pyspark (455.9 MB)",
                "building pyspark",
                "installing into .venv",
            ],
        ),
    ],
    ids=["uv", "pip"],
)
def test_it_says_what_the_installer_is_at(clone: Clone, output: str, steps: list[str]) -> None:
    """A line for each step, in a pipe."""
    (clone.root / "output").write_text(output)
    said = clone.run().stderr.splitlines()
    start = next(i for i, line in enumerate(said) if "to download" in line)
    end = next(i for i, line in enumerate(said) if "installing ottla itself" in line)
    assert said[start + 1 : end] == [f"ottla: {step}" for step in steps]


def test_a_terminal_sees_one_line_with_a_clock(clone: Clone) -> None:
    (clone.root / "output").write_text(OF_UV)
    ours, its = pty.openpty()
    with subprocess.Popen(
        [clone.root / "ottla"],
        env={"PATH": str(clone.path), "ROOT": str(clone.root), "COLUMNS": "40"},
        stdout=its,
        stderr=its,
    ):
        os.close(its)
        seen = read_all(ours)
    assert "\r\x1b[Kottla: 0:00 installing into .venv\r\x1b[K" in seen
    assert "MiB)\r\n" not in seen


def read_all(terminal: int) -> str:
    chunks: list[bytes] = []
    while True:
        try:
            chunk = os.read(terminal, 1 << 16)
        except OSError:  # EIO: nobody has it open any more
            chunk = b""
        if not chunk:
            os.close(terminal)
            return b"".join(chunks).decode()
        chunks.append(chunk)


def test_what_a_failed_installer_said_is_shown(clone: Clone) -> None:
    (clone.root / "fail-at-pip").touch()
    (clone.root / "output").write_text("error: no route to the index\n")
    assert "error: no route to the index\nottla: set-up failed: " in clone.run().stderr


def test_sizes_are_those_of_what_is_installed() -> None:
    """Within a fifth: a lock that was renewed may weigh more, and set-up should say so."""
    for name, profile in PROFILES.items():
        lock = (ROOT / "requirements" / f"{name}.txt").read_text()
        packages = re.findall(r"^([\w.-]+)==", lock, re.MULTILINE)
        size_mb = sum(size_bytes_of(package) for package in packages) / 1e6
        assert size_mb == pytest.approx(profile.disk_mb, rel=0.2), name


def size_bytes_of(package: str) -> int:
    try:
        files = metadata.distribution(package).files
    except metadata.PackageNotFoundError:  # for other platforms or Pythons only
        return 0
    return sum(file.size or 0 for file in files or ())


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


def test_a_set_up_by_uv_is_changed_without_it(clone: Clone) -> None:
    clone.run()
    (clone.path / "uv").unlink()
    with open(clone.root / "pyproject.toml", "a") as file:
        file.write("# changed\n")
    done = clone.run()
    assert done.returncode == 0
    # Else there is no pip in it: the set-up would fail, and the next run start from nothing.
    assert done.stderr.index("runs -m ensurepip") < done.stderr.index("runs -m pip install")


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


@pytest.mark.parametrize("step", ["venv", "pip"])
def test_control_c_is_one_line_and_the_next_run_starts_over(clone: Clone, step: str) -> None:
    (clone.root / f"wait-at-{step}").touch()
    environment = {"PATH": str(clone.path), "ROOT": str(clone.root)}
    with Terminal([], environment, command=[str(clone.root / "ottla")]) as terminal:
        while (clone.root / f"wait-at-{step}").exists():
            terminal.watch(0.01)
        terminal.press_control_c()
        # The shell that runs the script dies of the signal, as it should.
        assert terminal.wait(60) in (130, -signal.SIGINT)
        # What was killed takes a moment to go.
        _, alive = psutil.wait_procs(terminal.left(), timeout=60)
        assert alive == []
    said = terminal.text.rpartition("^C")[2].split("\r")[-1]
    assert said == "ottla: set-up interrupted; the next run starts over\n"
    clone.calls()
    assert clone.run().returncode == 0
    assert clone.calls() == WHOLE_SET_UP


def test_a_script_that_is_ended_takes_its_set_up_along(clone: Clone) -> None:
    (clone.root / "wait-at-pip").touch()
    environment = {"PATH": str(clone.path), "ROOT": str(clone.root)}
    with Terminal([], environment, command=[str(clone.root / "ottla")]) as terminal:
        while (clone.root / "wait-at-pip").exists():
            terminal.watch(0.01)
        terminal.process.terminate()
        terminal.process.wait(60)
        _, alive = psutil.wait_procs(terminal.left(), timeout=60)
        assert alive == []


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
