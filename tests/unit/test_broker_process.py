from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ottla.broker_process import ReadyInfo, run
from ottla.config.broker import BrokerConfig
from ottla.storage.log_manager import LogManager

READY = """
import gc, os, signal, sys
from ottla.cli import start

def ready(*info):
    found = [name for name in {heavy} if name in sys.modules]
    print(found, gc.isenabled(), gc.get_freeze_count() > 0)
    os.kill(os.getpid(), signal.SIGTERM)

start._say_ready = ready
start.run(start.Settings(data_dir={folder!r}, listen="127.0.0.1:0", log_level="info"))
"""


def test_a_start_does_not_wait_for_what_the_first_requests_do_not_need(tmp_path: Path) -> None:
    heavy = ["ottla.coordinators.groups.group_shard", "ottla.wire.messages.join_group"]
    heavy += ["shutil", "uuid", "urllib.parse", "importlib.metadata", "cramjam", "re2", "click"]
    heavy += ["encodings.idna", "kazoo"]
    code = READY.format(heavy=heavy, folder=str(tmp_path))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    # The collector is at work from then on, and leaves what was loaded alone.
    assert done.stdout == "[] True True\n"
    took = done.stderr.partition("the start took: ")[2]
    assert re.findall(r"([A-Za-z ]+) [0-9.]+ ms \(CPU [0-9.]+\)[,\"]", took) == [
        "Python and command line",
        *(" settings", " modules", " event loop", " log dirs", " store", " logs"),
        *(" controller and listeners", " partitions"),
    ]


def test_a_broker_that_is_still_starting_can_be_stopped(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async def start_for_ever(manager: LogManager, **_: Any) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.Event().wait()

    monkeypatch.setattr(LogManager, "start", start_for_ever)
    config = BrokerConfig({"log.dirs": str(tmp_path), "listeners": "PLAINTEXT://localhost:0"})
    ready: list[ReadyInfo] = []
    assert run(config, on_ready=ready.append) == 0
    assert not ready
    assert ".kafka_cleanshutdown" not in os.listdir(tmp_path)


SLOW_STOP = """
import asyncio, os, signal, sys
from ottla.broker import Broker
from ottla.broker_process import run
from ottla.config.broker import BrokerConfig

stop = Broker.stop
async def slow_stop(broker):
    print("stopping", flush=True)
    if sys.argv[2] == "never":
        await asyncio.Event().wait()
    os.kill(os.getpid(), signal.SIGHUP)
    await asyncio.sleep(0)
    await stop(broker)
Broker.stop = slow_stop
config = BrokerConfig({"log.dirs": sys.argv[1], "listeners": "PLAINTEXT://localhost:0"})
sys.exit(run(config, on_ready=lambda _: print("ready", flush=True)))
"""


@contextmanager
def slow_to_stop(folder: Path, how: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", SLOW_STOP, str(folder), how]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_does_not_wait_for_a_clean_stop(
    tmp_path: Path, number: signal.Signals
) -> None:
    with slow_to_stop(tmp_path, "never") as process:
        process.send_signal(number)
        assert process.stdout is not None
        assert process.stdout.readline() == "stopping\n"
        process.send_signal(number)
        assert process.wait(60) == 0
    assert ".kafka_cleanshutdown" not in os.listdir(tmp_path)


def test_a_terminal_that_is_closed_stops_it_cleanly_and_may_say_so_twice(tmp_path: Path) -> None:
    with slow_to_stop(tmp_path, "at last") as process:
        process.send_signal(signal.SIGHUP)
        assert process.wait(60) == 0
    assert ".kafka_cleanshutdown" in os.listdir(tmp_path)
