"""`ottla demo` with Spark, whole."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

COMMAND = [sys.executable, "-m", "ottla", "demo"]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "tmp").mkdir()
    return {**os.environ, "TMPDIR": str(tmp_path / "tmp")}


@pytest.fixture
def demo(tmp_path: Path, environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [*COMMAND, "--page", str(tmp_path / "page.html")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        yield process
        process.kill()


@pytest.mark.timeout(300)
def test_results_come_and_ctrl_c_leaves_the_page_only(
    tmp_path: Path, demo: subprocess.Popen[str]
) -> None:
    assert demo.stdout is not None
    lines = [demo.stdout.readline()]
    while "page views of" not in lines[-1]:
        lines.append(demo.stdout.readline())
        assert lines[-1], f"it ended: {demo.stderr.read() if demo.stderr else ''}"
    # The broker is shown from the beginning, and how far Spark is.
    assert any(
        re.search(r"[\d,]+ records written .* end to end p50 .*; Spark starts", line)
        for line in lines
    )
    url = lines[1].removeprefix("charts, live: ").strip()
    with urllib.request.urlopen(url, timeout=30) as answer:
        assert "page views · " in answer.read().decode()
    started = psutil.Process(demo.pid).children(recursive=True)
    demo.send_signal(signal.SIGINT)
    out, err = demo.communicate(timeout=60)

    assert (demo.returncode, err) == (0, "")
    path = tmp_path / "page.html"
    last = out.splitlines()[-1]
    assert re.fullmatch(
        r"[\d,]+ records written, [\d,]+ read by Spark: [\d,]+ page views of [\d,]+ visitors, "
        rf"[\d,]+ sessions; page: {re.escape(str(path))}",
        last,
    )
    assert "page views · " in path.read_text()
    # The broker, the pipeline and its Java.
    assert len(started) >= 3
    _, alive = psutil.wait_procs(started, timeout=30)
    assert [one for one in alive if one.status() != psutil.STATUS_ZOMBIE] == []
    assert os.listdir(tmp_path / "tmp") == []


def test_it_ends_by_itself_before_there_are_results(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    done = subprocess.run(
        [*COMMAND, "--seconds", "3"],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
        timeout=60,
    )

    assert (done.returncode, done.stderr) == (0, "")
    last = done.stdout.splitlines()[-1]
    (page,) = (tmp_path / "tmp").iterdir()
    assert "records written; no results yet" in last
    assert last.endswith(f"page: {page}")
    assert page.read_text().count("<figure") == 8
