"""The JVM of Spark's driver, as a child process. This module needs Spark.

Spark's own `launch_gateway` starts one as well, but has it to itself until it answers: whoever is
interrupted before that leaves it behind for good, for it then waits for a file that is gone. And it
prints to our terminal: of a module that Spark's launcher asks for, of a code cache that is full, of
a Python worker that was told to end.
"""

from __future__ import annotations

import atexit
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ottla.pipeline.run.shared_log import SharedLog

_POLL_S = 0.02
_KILL_AFTER_S = 0.5
_END_TIMEOUT_S = 2.0


class JavaEnded(Exception):
    """Before it answered."""


class JavaProcess:
    """From its making to `end` or `kill`, whether anybody holds this object or not. It also ends
    when this process does, however that ends: it reads its standard input until there is no more.
    """

    def __init__(self, settings: Mapping[str, str], log: Path) -> None:
        """What it and its Python workers print is added to the log."""
        from pyspark.find_spark_home import _find_spark_home

        command = [os.path.join(_find_spark_home(), "bin", "spark-submit")]
        for key, value in settings.items():
            command += ["--conf", f"{key}={value}"]
        command += shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
        self._folder = tempfile.mkdtemp(prefix="ottla-java-")
        self._connection = os.path.join(self._folder, "connection")
        self._log = log
        self._gateway: Any = None
        self.died_of: str | None = None
        """Why it ended after it had answered and before it was told to. Known after `end`."""
        with open(log, "ab") as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env={
                    **os.environ,
                    "SPARK_CONNECT_MODE": "0",
                    "_PYSPARK_DRIVER_CONN_INFO_PATH": self._connection,
                },
                # Ctrl-C is for this process, which ends the other in order.
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
            )
        self._has_ended = threading.Event()
        keeper = threading.Thread(
            target=SharedLog(log).keep_small, args=(self._has_ended,), name="ottla-log", daemon=True
        )
        keeper.start()
        # Holds it too: if it were collected, its standard input would be closed.
        atexit.register(self.end)

    def connect(self) -> Any:
        """The JavaGateway of py4j, when it answers. Raises JavaEnded when it never does."""
        from pyspark.java_gateway import launch_gateway
        from pyspark.serializers import UTF8Deserializer, read_int

        while not os.path.exists(self._connection):
            if (exit_code := self._process.poll()) is not None:
                self.end()
                raise JavaEnded(f"exit code {exit_code}: {self._last_line()}")
            time.sleep(_POLL_S)
        with open(self._connection, "rb") as file:
            port, secret = read_int(file), UTF8Deserializer().loads(file)  # type: ignore[no-untyped-call]
        shutil.rmtree(self._folder)
        given = {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}
        os.environ.update(given)
        try:
            self._gateway = launch_gateway()  # type: ignore[no-untyped-call]
            return self._gateway
        finally:
            for name in given:
                del os.environ[name]

    def end(self, patience_s: float = _END_TIMEOUT_S) -> None:
        """In order: when Spark has stopped. After `patience_s` it is killed."""
        if self._gateway is not None:
            # A thread of py4j tells Java of every object that Python has dropped, and logs an error
            # where nobody answers.
            self._gateway._gateway_client.is_connected = False
        self._close_input()
        try:
            exit_code = self._process.wait(patience_s)
        except subprocess.TimeoutExpired:
            self.kill()
            self._process.wait()
        else:
            if exit_code != 0 and self._gateway is not None:
                is_signal = exit_code < 0
                self.died_of = f"signal {-exit_code}" if is_signal else f"exit code {exit_code}"
        shutil.rmtree(self._folder, ignore_errors=True)
        self._has_ended.set()
        atexit.unregister(self.end)

    def kill(self) -> None:
        """Whatever it does. It gets a moment to remove its files."""
        self._process.terminate()
        deadline_s = time.monotonic() + _KILL_AFTER_S
        while self._process.poll() is None and time.monotonic() < deadline_s:
            time.sleep(_POLL_S)
        self._process.kill()
        self._close_input()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _close_input(self) -> None:
        assert self._process.stdin is not None, "a pipe was asked for"
        self._process.stdin.close()

    def _last_line(self) -> str:
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"
