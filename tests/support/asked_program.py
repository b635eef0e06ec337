"""A Java program of `support/java` that answers line by line."""

from __future__ import annotations

import subprocess
from pathlib import Path

PROGRAMS = Path(__file__).parent / "java"


class AskedProgram:
    """One JVM, made by a fixture for the tests of one file: starting it is what costs. It ends with
    its standard input."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )

    def ask(self, *words: str) -> list[str]:
        """The words of its answer. Neither has tabs or line breaks."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\t".join(words) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"the program ended over {words}"
        return line.rstrip("\n").split("\t")

    def close(self) -> None:
        self._process.communicate(timeout=60)
