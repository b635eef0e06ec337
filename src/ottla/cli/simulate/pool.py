"""Several child processes that run seeds, since one has one core."""

from __future__ import annotations

import os
import selectors
import subprocess
import sys
from collections import deque
from types import TracebackType

from ottla.cli.errors import Failure
from ottla.cli.simulate.job import Job, Result

_CHUNK_BYTES = 1 << 20


class _Child:
    """Runs one job at a time. In a session of its own, so that Ctrl-C reaches its parent only; when
    that was killed, it ends with the job that it has."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "ottla.cli.simulate.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            bufsize=0,
        )
        self._job: Job | None = None
        self._read = bytearray()

    @property
    def is_busy(self) -> bool:
        return self._job is not None

    def fileno(self) -> int:
        assert self._process.stdout is not None, "a pipe was asked for"
        return self._process.stdout.fileno()

    def begin(self, job: Job) -> None:
        assert self._process.stdin is not None, "a pipe was asked for"
        self._job = job
        try:
            self._process.stdin.write(f"{job.to_json()}\n".encode())
        except BrokenPipeError:
            pass  # It has ended: `hear` tells how.

    def hear(self) -> Result | None:
        """When there is something to be read. None until the answer is complete."""
        content = os.read(self.fileno(), _CHUNK_BYTES)
        if not content:
            assert self._job is not None, "it has nothing else to end of"
            exit_code = self._process.wait()
            raise Failure(f"seed {self._job.seed} ended its process, with exit code {exit_code}")
        self._read += content
        if not self._read.endswith(b"\n"):
            return None
        line = self._read.decode()
        self._read.clear()
        self._job = None
        return Result.from_json(line)

    def kill(self) -> None:
        self._process.kill()

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None, "a pipe was asked for"
            stream.close()


class Pool:
    """From `with` to its end: then whatever runs is killed."""

    def __init__(self, child_count: int) -> None:
        self._child_count = child_count
        self._children: list[_Child] = []
        self._jobs: deque[Job] = deque()
        self._selector = selectors.DefaultSelector()

    def __enter__(self) -> Pool:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._selector.close()
        for child in self._children:
            child.close()

    def kill(self) -> None:
        """At once, on any thread."""
        for child in list(self._children):
            child.kill()

    @property
    def is_idle(self) -> bool:
        return not self._jobs and not any(child.is_busy for child in self._children)

    def add(self, job: Job) -> None:
        self._jobs.append(job)

    def results(self, longest_s: float) -> list[Result]:
        """Those that are there within this time; none if there is none."""
        self._hand_out()
        found = []
        for key, _ in self._selector.select(longest_s):
            assert isinstance(key.fileobj, _Child), "nothing else is waited for"
            result = key.fileobj.hear()
            if result is not None:
                found.append(result)
        self._hand_out()
        return found

    def _hand_out(self) -> None:
        free = [child for child in self._children if not child.is_busy]
        while self._jobs:
            if free:
                child = free.pop()
            elif len(self._children) < self._child_count:
                child = _Child()
                self._children.append(child)
                self._selector.register(child, selectors.EVENT_READ)
            else:
                return
            child.begin(self._jobs.popleft())
