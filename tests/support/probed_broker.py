"""A broker in a process of its own that knows its loop's longest slice, in CPU time.

A slice is what the loop runs without looking at its sockets: one callback, or one step of a task.
CPU time of the loop's thread, since the machine may be busy with other things. Collections of
garbage count where they happen within a slice. The rare looks at everything are told apart:
`ottla.kernel.garbage` says why there are any, and nothing could slice them.

The loop is asyncio's own: its callbacks can be wrapped, uvloop's cannot. They are the same ones.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import IO, Any, NamedTuple

from ottla.kernel.garbage import look_at_everything

READY_S = 60.0


class Slice(NamedTuple):
    ms: float = 0.0
    garbage_ms: float = 0.0
    """Of these, how many the garbage collector took."""
    callback: str = ""

    look_count: int = 0
    """How often the collector has looked at everything since the broker began: `ms` is without."""

    def __str__(self) -> str:
        return f"{self.ms:6.1f} ms, {self.garbage_ms:5.1f} for garbage: {self.callback}"


class ProbedBroker:
    """Whoever starts it stops it. Its folder is left as it is."""

    def __init__(self, folder: Path, settings: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.support.probed_broker",
                str(folder),
                json.dumps(settings),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.bootstrap = self._read_line()

    def __enter__(self) -> ProbedBroker:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._process.terminate()
        self._process.wait(READY_S)
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None, "both are pipes"
            stream.close()

    def longest_slice(self) -> Slice:
        """Since the last question."""
        stdin = self._process.stdin
        assert stdin is not None, "it is a pipe"
        stdin.write("\n")
        stdin.flush()
        return Slice(*json.loads(self._read_line()))

    def _read_line(self) -> str:
        stdout = self._process.stdout
        assert stdout is not None, "it is a pipe"
        line = stdout.readline()
        assert line, f"the broker has ended: {self._process.wait()}"
        return line.strip()


class Probe:
    """Wraps every callback of the loop of this process."""

    def __init__(self) -> None:
        self.longest = Slice()
        self.look_count = 0
        self._garbage_s = 0.0
        self._collection_began_s = 0.0
        gc.callbacks.append(self._note_collection)
        run = asyncio.Handle._run

        def timed(handle: asyncio.Handle) -> None:
            self._garbage_s = 0.0
            began_s = time.thread_time()
            is_look = handle._callback is look_at_everything  # type: ignore[attr-defined]
            run(handle)
            took_ms = (time.thread_time() - began_s) * 1000
            if is_look:
                self.look_count += 1
            elif took_ms > self.longest.ms:
                self.longest = Slice(took_ms, self._garbage_s * 1000, _name_of(handle))

        asyncio.Handle._run = timed  # type: ignore[method-assign,assignment]

    def _note_collection(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._collection_began_s = time.thread_time()
            return
        self._garbage_s += time.thread_time() - self._collection_began_s

    def answer(self, questions: IO[str], loop: asyncio.AbstractEventLoop) -> None:
        """A line for each line, when what runs now has ended: its answer may be out before."""
        for _ in questions:
            loop.call_soon_threadsafe(self._report)

    def _report(self) -> None:
        found, self.longest = self.longest, Slice()
        print(json.dumps(found._replace(look_count=self.look_count)), flush=True)


def _name_of(handle: Any) -> str:
    callback = handle._callback
    task = getattr(callback, "__self__", None)
    if isinstance(task, asyncio.Task):
        coroutine: Any = task.get_coro()
        coroutine = getattr(coroutine, "_coroutine", coroutine)  # That of `kernel.eager`.
        return f"a step of {coroutine.__qualname__}"
    return getattr(callback, "__qualname__", repr(callback))


def _main(folder: str, settings: dict[str, str]) -> int:
    sys.modules["uvloop"] = None  # type: ignore[assignment]  # As if it were not installed.
    from ottla.broker_process import ReadyInfo, run
    from ottla.config.broker import BrokerConfig

    probe = Probe()

    def on_ready(info: ReadyInfo) -> None:
        loop = asyncio.get_running_loop()
        threading.Thread(target=probe.answer, args=[sys.stdin, loop], daemon=True).start()
        print(info.addresses[0], flush=True)

    return run(BrokerConfig({"log.dirs": folder, **settings}), on_ready=on_ready)


if __name__ == "__main__":
    code = _main(sys.argv[1], json.loads(sys.argv[2]))
    sys.stdout.flush()
    os._exit(code)  # The thread that reads questions would keep it.
