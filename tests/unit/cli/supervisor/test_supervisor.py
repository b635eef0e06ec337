"""With children that only look like brokers. tests/compat has real ones."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from ottla.cli.errors import Failure
from ottla.cli.start import Settings, run

WAIT_S = 60

PARENT = """
import sys
from ottla.cli.main import _exit_code_of
from ottla.cli import early_exit, start
from ottla.cli.supervisor import supervisor
from ottla.cli.supervisor.stuck_writer import StuckWriter
from ottla.cli.supervisor.supervised_broker import SupervisedBroker

folder, restarts, *codes = sys.argv[1:]
brokers = [
    SupervisedBroker(n, [sys.executable, "-c", code, str(n)], f"{folder}/broker-{n}.log")
    for n, code in enumerate(codes, start=1)
]
start.run = lambda settings: supervisor.Supervisor(
    brokers, StuckWriter(f"{folder}/cluster.db", 18), folder, restarts=restarts == "restarts",
    started_s=0
).run()
early_exit.exit_at_once(0)
sys.exit(_exit_code_of(["start"], 0))
"""

SERVES = """
import os, signal, sys
def stop(*_):
    print("stopping", file=sys.stderr, flush=True)
    os._exit(0)
signal.signal(signal.SIGTERM, stop)
print(f"ready: broker {sys.argv[1]} on h:{sys.argv[1]}, data in d ({os.getpid()})", flush=True)
sys.stdin.read()
"""
STAYS = SERVES.replace("os._exit(0)", "pass")
FAILS = "import sys; sys.exit('ottla: the port is taken')"


@contextmanager
def supervisor(
    folder: Path, *codes: str, restarts: bool = False
) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", PARENT, str(folder), "restarts" if restarts else "", *codes]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().rstrip("\n")


def until_ready(process: subprocess.Popen[str], count: int) -> dict[int, int]:
    """The process of each broker."""
    pids = {}
    for _ in range(count):
        ready = re.fullmatch(r"ready: broker (\d) on h:\1, data in d \((\d+)\)", line(process))
        assert ready is not None
        pids[int(ready[1])] = int(ready[2])
    return pids


def wait_until_gone(pids: Sequence[int]) -> None:
    left = [psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)]
    _, left = psutil.wait_procs(left, timeout=WAIT_S)
    assert left == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_it_says_that_they_are_ready_and_stops_them(tmp_path: Path, number: signal.Signals) -> None:
    with supervisor(tmp_path, SERVES, SERVES, SERVES) as process:
        pids = until_ready(process, 3)
        assert re.fullmatch(r"ottla \S+ ready: 3 brokers on h:1,h:2,h:3, data in .*", line(process))
        process.send_signal(number)
        assert process.wait(WAIT_S) == 0
        assert line(process) == ""
    assert not [pid for pid in pids.values() if psutil.pid_exists(pid)]
    assert (tmp_path / "broker-3.log").read_text() == "stopping\n"


def test_a_second_signal_does_not_wait(tmp_path: Path) -> None:
    with supervisor(tmp_path, STAYS, STAYS) as process:
        pids = until_ready(process, 2)
        process.send_signal(signal.SIGTERM)
        log = tmp_path / "broker-2.log"
        while "stopping" not in log.read_text():
            pass
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT_S) == 0
    assert not [pid for pid in pids.values() if psutil.pid_exists(pid)]


def test_a_killed_supervisor_leaves_nobody_behind(tmp_path: Path) -> None:
    with supervisor(tmp_path, SERVES, SERVES) as process:
        pids = until_ready(process, 2)
        process.kill()
        wait_until_gone(list(pids.values()))


def test_one_that_dies_is_named(tmp_path: Path) -> None:
    with supervisor(tmp_path, SERVES, SERVES) as process:
        pids = until_ready(process, 2)
        line(process)
        os.kill(pids[2], signal.SIGKILL)
        assert line(process) == (
            f"ottla: broker 2 has died (ended by SIGKILL), its log is {tmp_path}/broker-2.log; "
            "with --restart it would be started again"
        )
        os.kill(pids[1], signal.SIGTERM)
        assert line(process).startswith("ottla: broker 1 has stopped, its log is ")
        assert line(process) == "ottla: no broker is left"
        assert process.wait(WAIT_S) == 1


def test_one_that_dies_is_started_again(tmp_path: Path) -> None:
    with supervisor(tmp_path, SERVES, SERVES, restarts=True) as process:
        pids = until_ready(process, 2)
        line(process)
        os.kill(pids[1], signal.SIGKILL)
        assert line(process).endswith("/broker-1.log; starting it again in 1 s")
        again = until_ready(process, 1)
        assert again.keys() == {1}
        assert again[1] != pids[1]
        process.send_signal(signal.SIGINT)
        assert process.wait(WAIT_S) == 0


@pytest.mark.parametrize("restarts", [False, True])
def test_one_that_cannot_start_at_all_ends_the_others(tmp_path: Path, restarts: bool) -> None:
    with supervisor(tmp_path, SERVES, FAILS, restarts=restarts) as process:
        assert process.wait(WAIT_S) == 1
        assert process.stdout is not None
        assert process.stdout.read().splitlines()[-1] == (
            "ottla: broker 2 could not start: the port is taken"
        )


def test_one_that_is_still_starting_stops_as_cleanly(tmp_path: Path) -> None:
    code = "import sys, time; print('starting', file=sys.stderr, flush=True); time.sleep(600)"
    with supervisor(tmp_path, code) as process:
        log = tmp_path / "broker-1.log"
        while not (log.exists() and log.read_text()):
            pass
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT_S) == 0
        assert line(process) == ""


def test_one_that_fails_to_stop_is_an_error(tmp_path: Path) -> None:
    code = SERVES.replace("os._exit(0)", "os._exit(3)")
    with supervisor(tmp_path, SERVES, code) as process:
        until_ready(process, 2)
        line(process)
        process.send_signal(signal.SIGTERM)
        assert line(process) == "ottla: broker 2 did not stop cleanly (exit code 3)"
        assert process.wait(WAIT_S) == 1


def test_the_data_of_a_single_broker_are_not_several_brokers(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("")
    with pytest.raises(Failure, match="there are the data of a single broker"):
        run(Settings(brokers="3", data_dir=str(tmp_path)))


def test_bad_settings_are_told_before_anything_is_made(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    with pytest.raises(Failure, match=r"num\.partitions"):
        run(Settings(brokers="3", data_dir=str(folder), set=("num.partitions=x",)))
    assert not folder.exists()


def test_it_is_light() -> None:
    code = (
        "import sys, ottla.cli.supervisor.supervisor\n"
        "heavy = ('asyncio', 'sqlite3', 'click', 'ottla.broker', 'ottla.wire', 'kazoo')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
