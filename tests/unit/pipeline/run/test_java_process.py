"""The JVM as a child, played by a shell script. tests/pipeline has the real one."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark import find_spark_home, java_gateway

from ottla.pipeline.run.java_process import JavaEnded, JavaProcess


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "bin").mkdir()
    monkeypatch.setattr(find_spark_home, "_find_spark_home", lambda: str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def java(home: Path, script: str) -> JavaProcess:
    path = home / "bin" / "spark-submit"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o700)
    return JavaProcess({"spark.app.name": "a name"}, home / "log")


def logged(home: Path, text: str) -> None:
    while text not in (home / "log").read_text():
        time.sleep(0.01)


def test_one_that_cannot_start_says_why(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    process = java(home, 'echo "$@"; echo "no such master" >&2; exit 3')

    with pytest.raises(JavaEnded, match="exit code 3: no such master"):
        process.connect()
    assert (home / "log").read_text() == (
        "--conf spark.app.name=a name pyspark-shell\nno such master\n"
    )
    assert capfd.readouterr() == ("", "")
    assert not list(home.glob("ottla-java-*"))


def test_it_ends_when_its_standard_input_does(home: Path) -> None:
    process = java(home, "cat; echo ended")
    process.end()

    assert (home / "log").read_text() == "ended\n"
    assert not list(home.glob("ottla-java-*"))


def test_one_that_nobody_holds_runs_until_this_process_ends(home: Path) -> None:
    path = home / "bin" / "spark-submit"
    path.write_text("#!/bin/sh\necho ready; cat; echo ended\n")
    path.chmod(0o700)
    script = f"""
import gc, pathlib, time
from pyspark import find_spark_home
find_spark_home._find_spark_home = lambda: {str(home)!r}
from ottla.pipeline.run.java_process import JavaProcess
log = pathlib.Path({str(home / "log")!r})
JavaProcess({{}}, log)
gc.collect()
while "ready" not in log.read_text():
    time.sleep(0.01)
with log.open("a") as file:
    print("this process ends", file=file)
"""
    command = [sys.executable, "-W", "error", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert (home / "log").read_text() == "ready\nthis process ends\nended\n"


def test_one_that_does_not_end_is_killed(home: Path) -> None:
    process = java(home, 'trap "" TERM INT; echo ready; while :; do sleep 0.01; done')
    logged(home, "ready")
    process.kill()

    assert process._process.wait(30) == -9


ANSWER = (
    'told=$_PYSPARK_DRIVER_CONN_INFO_PATH; printf "\\0\\0\\0\\1\\0\\0\\0\\1s" > "$told.part"\n'
    'mv "$told.part" "$told";'
)


@pytest.fixture
def gateway(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    gateway = SimpleNamespace(_gateway_client=SimpleNamespace(is_connected=True))
    monkeypatch.setattr(java_gateway, "launch_gateway", lambda: gateway)
    return gateway


def test_nobody_speaks_to_one_that_ends(home: Path, gateway: SimpleNamespace) -> None:
    process = java(home, f"{ANSWER} cat")
    assert process.connect() is gateway
    assert gateway._gateway_client.is_connected
    process.end()
    assert not gateway._gateway_client.is_connected
    assert process.died_of is None


@pytest.mark.usefixtures("gateway")
@pytest.mark.parametrize(
    ("end", "reason"), [("kill -KILL $$", "signal 9"), ("exit 143", "exit code 143")]
)
def test_one_that_ends_untold_says_how(home: Path, end: str, reason: str) -> None:
    process = java(home, f"{ANSWER} {end}")
    process.connect()
    process.end()
    assert process.died_of == reason


def test_one_that_is_killed_has_not_died(home: Path) -> None:
    process = java(home, "cat")
    process.kill()
    process.end()
    assert process.died_of is None


def test_control_c_is_not_for_it(home: Path) -> None:
    process = java(home, "kill -INT $$; echo goes on; cat")
    logged(home, "goes on")
    process.end()


def test_whoever_ends_it_says_how_long_it_may_take(home: Path) -> None:
    process = java(home, 'trap "" TERM; echo ready; while :; do sleep 0.01; done')
    logged(home, "ready")
    process.end(patience_s=0)
    assert process._process.returncode == -9

    process = java(home, "cat; sleep 0.1; echo written")
    process.end(patience_s=300)
    assert "written" in (home / "log").read_text()
