"""`ottla zookeeper` with a real Java."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.compat.test_cli_endings import BAD_WORDS, END_S, end_at
from tests.support.terminal import Terminal
from tests.support.zookeeper_process import ZooKeeperProcess

START_S = 60.0


def test_killed_or_stopped_its_data_is_there_at_the_next_start(tmp_path: Path) -> None:
    server = ZooKeeperProcess(tmp_path)
    server.start()
    address = server.address
    server.kill()
    server.start()
    assert server.address == address
    server.stop()
    assert (tmp_path / "version-2").is_dir()


def test_on_a_terminal_it_says_what_to_try_and_ctrl_c_ends_it(tmp_path: Path) -> None:
    args = ["zookeeper", "--listen", "127.0.0.1:0", "--data-dir", str(tmp_path)]
    with Terminal(args) as terminal:
        terminal.wait_for("Ctrl-C stops ZooKeeper", START_S)
        second = subprocess.run(
            [sys.executable, "-m", "ottla", *args], capture_output=True, text=True, check=False
        )
        terminal.press_control_c()
        assert terminal.wait(END_S) == 0
        _, left = psutil.wait_procs(terminal.left(), timeout=END_S)
        assert left == []
    assert "Brokers find it by zookeeper.connect=127.0.0.1:" in terminal.text
    assert second.returncode == 1
    assert "another ZooKeeper uses it" in second.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("moment_s", [0.0, 0.5])
def test_it_ends_in_silence_at_any_moment(
    moment_s: float, number: signal.Signals, tmp_path: Path
) -> None:
    args = ["zookeeper", "--listen", "127.0.0.1:0", "--data-dir", str(tmp_path)]
    exit_code, text = end_at(moment_s, args, {}, number)
    assert exit_code == 0, text
    assert not [word for word in BAD_WORDS if word in text], text
