"""Processes that each have a session of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

SOURCES = Path(__file__).parents[3] / "src"


class Peer:
    """A process with a session of its own, which does as told."""

    def __init__(self, kind: str, path: str, *args: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("peer.py")), kind, path, *args],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(SOURCES)},
        )

    def hear(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the peer is gone"
        answer: dict[str, Any] = json.loads(line)
        return answer

    def tell(self, *call: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(call) + "\n")
        self._process.stdin.flush()

    def ask(self, *call: object) -> Any:
        self.tell(*call)
        return self.hear()["result"]

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def end(self) -> None:
        """Without a word, as a crash would."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()


class Peers:
    def __init__(self) -> None:
        self._peers: list[Peer] = []

    def start(self, kind: str, path: str, count: int, *args: str) -> list[Peer]:
        """At the same moment, so that they also race to make a file."""
        started = [Peer(kind, path, *args) for _ in range(count)]
        self._peers += started
        for peer in started:
            assert peer.hear()["result"] > 0
        return started

    def end(self) -> None:
        for peer in self._peers:
            peer.end()
