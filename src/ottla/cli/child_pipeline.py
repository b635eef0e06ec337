"""A pipeline as a child process: `ottla pipeline run`, with a folder that goes with it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ottla.cli.demo_folder import DemoFolder

if TYPE_CHECKING:
    from ottla.pipeline.run.stages import Stage

_REMOVE_TIMEOUT_S = 10.0
_REMOVE_AT_ONCE_S = 0.3


class ChildPipeline:
    """Runs from `with` to its end; then it is killed, with its JVM, and what it has written is
    removed. It is in a session of its own, so that Ctrl-C reaches its parent only."""

    def __init__(self, job: str, bootstrap: str, settings: dict[str, str]) -> None:
        self._folder = DemoFolder("pipeline")
        self._command = [sys.executable, "-P", "-m", "ottla", "pipeline", "run", job, "--json"]
        self._command += ["--bootstrap", bootstrap]
        self._command += ["--folder", self._path("job"), "--lake", self._path("lake")]
        for key, value in {**settings, "spark.local.dir": self._path("spark")}.items():
            self._command += ["--set", f"{key}={value}"]
        self._process: subprocess.Popen[str] | None = None
        self._reader = threading.Thread(target=self._read, name="demo-progress", daemon=True)
        self.last: dict[str, dict[str, Any]] = {}
        """The last batch of each query, as `pipeline run --json` has it."""
        self.rows: dict[str, int] = {}
        """That each query has read."""
        self.stages: list[tuple[Stage, float]] = []
        """What it has passed since its start, with the seconds since then. All that it will pass is
        in `ottla.pipeline.run.stages.STAGES`, in this order."""

    def __enter__(self) -> ChildPipeline:
        self._started_s = time.monotonic()
        with open(self._log_path, "wb") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
                # Spark and its Java leave files there when they are killed.
                env={
                    **os.environ,
                    "TMPDIR": self._folder.path,
                    "JAVA_TOOL_OPTIONS": self._java_options,
                },
            )
        self._reader.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        process = self._process
        assert process is not None, "it was started"
        self._kill()
        process.wait()
        self._reader.join()
        assert process.stdout is not None, "a pipe was asked for"
        process.stdout.close()
        self._folder.remove(_REMOVE_TIMEOUT_S)

    @property
    def pid(self) -> int:
        assert self._process is not None, "it was started"
        return self._process.pid

    @property
    def lake(self) -> str:
        return self._path("lake")

    def elapsed_s(self) -> float:
        """Since its start."""
        return time.monotonic() - self._started_s

    def end(self) -> None:
        """At once, on any thread, started or not."""
        if self._process is not None:
            self._kill()
        self._folder.remove(_REMOVE_AT_ONCE_S)

    def _kill(self) -> None:
        """All of its session: its Python may be gone, and its Java not."""
        assert self._process is not None, "it was started"
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def exit_code(self) -> int | None:
        """None while it runs."""
        return None if self._process is None else self._process.poll()

    def reason(self) -> str:
        """Why it ended: what it said itself, if it did, among all that Java and Spark say."""
        with open(self._log_path, errors="replace") as log:
            lines = log.read().strip().splitlines() or ["it said nothing"]
        said = [line for line in lines if line.startswith("ottla: ")]
        return (said or lines)[-1].removeprefix("ottla: ")

    def _read(self) -> None:
        assert self._process is not None, "it was started"
        assert self._process.stdout is not None, "a pipe was asked for"
        for line in self._process.stdout:
            try:
                event = json.loads(line)
                kind = event["event"]
            except (ValueError, TypeError, KeyError):
                # Whoever else says something there, the screen goes on.
                with open(self._log_path, "a") as log:
                    log.write(line)
                continue
            if kind == "stage":
                self.stages.append((event["stage"], time.monotonic() - self._started_s))
            elif kind == "batch":
                name = event["query"]
                self.rows[name] = self.rows.get(name, 0) + event["rows"]
                self.last[name] = event

    def _path(self, name: str) -> str:
        return os.path.join(self._folder.path, name)

    @property
    def _log_path(self) -> str:
        return self._path("pipeline.log")

    @property
    def _java_options(self) -> str:
        # It runs for a minute, not for months: the second compiler of the JVM would take more time
        # from it than it gives back (measured: half of the time to the first results).
        quick = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
        # With one compiler the JVM sets aside 48 MB for what is compiled: full after a minute, and
        # from then on it interprets. With two it is this much.
        code = "-XX:ReservedCodeCacheSize=240m"
        return f"-Djava.io.tmpdir={self._folder.path} -XX:-UsePerfData {quick} {code}"
