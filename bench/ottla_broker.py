"""Ottla as `ottla start` runs it, with no settings but folder and port; several as
`ottla start --brokers` runs them."""

from __future__ import annotations

import itertools
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from bench import process
from bench.broker import Broker
from bench.cluster import Cluster, internal_topic_settings

_SOURCE = Path(__file__).resolve().parent.parent / "src"

_numbers = itertools.count()


class Ottla(Broker):
    """Runs from this tree, with the interpreter that runs the benchmark."""

    name = "Ottla"

    def __init__(self, parent: Path, more_arguments: Sequence[str] = ()) -> None:
        super().__init__(parent)
        self._more_arguments = more_arguments
        self._process: subprocess.Popen[bytes] | None = None
        self._output = self.folder / "output.txt"
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port: int = probe.getsockname()[1]

    def cluster(self, count: int) -> Cluster:
        store = self._parent / f"{self.folder.name}-cluster-{next(_numbers)}.db"
        settings = {"ottla.coordination.file": str(store), **internal_topic_settings(count)}
        common = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
        nodes = {
            number: Ottla(self._parent, ["--broker-id", str(number), *common])
            for number in range(1, count + 1)
        }
        return Cluster(self.name, nodes)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._port}"

    @property
    def pid(self) -> int:
        assert self._process is not None, "not started"
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def make_folder_ready(self) -> None:
        """The first start does it."""

    def spawn(self) -> None:
        arguments = ["--data-dir", str(self.folder / "data"), "--listen", self.address]
        arguments += self._more_arguments
        if self.tells_start_parts:
            arguments += ["--log-level", "info"]
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "ottla", "start", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self.folder,
                # With bytecode, as whoever starts it a second time has it.
                env={
                    **os.environ,
                    "PYTHONPATH": str(_SOURCE),
                    "PYTHONDONTWRITEBYTECODE": "",
                },
            )

    def stop(self) -> None:
        if self._process is not None:
            process.end(self._process)
            self._process = None

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def log_folder(self, topic: str, partition: int) -> Path:
        return self.folder / "data" / f"{topic}-{partition}"

    def start_parts_output(self) -> str | None:
        return self.output() if self.tells_start_parts else None

    def output(self) -> str:
        return self._output.read_text(errors="replace")
