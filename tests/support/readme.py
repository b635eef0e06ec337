"""The blocks of the README, and a place to run them in as a reader would: a folder that looks like
a clone, with `./ottla` and `.venv/bin/python` of the Python that runs the tests."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

_ROOT = Path(__file__).resolve().parents[2]
README = (_ROOT / "README.md").read_text()
_READY = re.compile(r"ready: broker \d+ on (\S+:\d+),")
_TIMEOUT_S = 240

_OTHERWISE = {
    # It has no end of its own; tests/pipeline/test_demo.py looks at what it shows.
    "./ottla demo": "./ottla demo --seconds 5",
    # Somebody may have 9092.
    "./ottla doctor": "./ottla doctor --listen localhost:0",
}


class Block(NamedTuple):
    language: str
    text: str

    @property
    def needs_spark(self) -> bool:
        return "pipeline" in self.text or self.text.strip() == "./ottla demo"


def blocks() -> list[Block]:
    found = re.findall(r"^```(\w*)\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
    return [Block(language, text) for language, text in found]


class Reader:
    """From `with` to its end. Has one terminal for `./ottla start`, and another for the rest."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._broker: subprocess.Popen[str] | None = None
        self._bootstrap = ""
        self._environment = {
            **os.environ,
            "PYTHONPATH": str(_ROOT / "src"),
            "PATH": f"{folder}:{os.environ['PATH']}",  # as if `ottla` were installed
        }

    def __enter__(self) -> Reader:
        python = f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n'
        ottla = f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -P -m ottla "$@"\n'
        for name, script in {".venv/bin/python": python, "ottla": ottla}.items():
            path = self._folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(script)
            path.chmod(0o755)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._broker is not None:
            self._broker.kill()
            self._broker.communicate()

    def run(self, block: Block) -> str:
        """What it prints. Fails when it fails."""
        if block.text.strip() == "./ottla start":
            return self._start()
        text = block.text.replace("localhost:9092", self._bootstrap)
        for command, instead in _OTHERWISE.items():
            text = re.sub(f"^{re.escape(command)}$", instead, text, flags=re.MULTILINE)
        shell = ["sh", "-ec"] if block.language == "sh" else [".venv/bin/python", "-c"]
        done = subprocess.run(
            [*shell, text],
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, f"{block.text}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def stop(self) -> None:
        """Ctrl-C in the terminal of the broker."""
        assert self._broker is not None
        self._broker.send_signal(signal.SIGINT)
        self._broker.communicate(timeout=30)
        assert self._broker.returncode == 0
        self._broker = None

    def _start(self) -> str:
        # Any port: 9092 may be somebody's.
        self._broker = subprocess.Popen(
            ["./ottla", "start", "--listen", "localhost:0"],
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._broker.stdout is not None
        line = self._broker.stdout.readline()
        ready = _READY.search(line)
        assert ready is not None, line
        self._bootstrap = self._environment["OTTLA_BOOTSTRAP"] = ready[1]
        return line
