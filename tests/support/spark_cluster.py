"""A standalone Spark cluster on loopback, from the installed wheel."""

from __future__ import annotations

import os
import re
import subprocess
import time
from pathlib import Path

import pyspark

from ottla.pipeline.run.java import find_java

_SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
_STARTED = re.compile(r"Starting Spark master at (spark://\S+)")
_REGISTERED = re.compile(r"Successfully registered with master")
_START_TIMEOUT_S = 120
_STOP_TIMEOUT_S = 30
_QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


class SparkCluster:
    """A master, and workers of one core each, all with logs in `folder`. Whoever enters it has it
    running, and leaves it ended."""

    def __init__(self, folder: Path, worker_count: int) -> None:
        self.folder = folder
        self.master = ""
        self._worker_count = worker_count
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> SparkCluster:
        try:
            self._start("master", "org.apache.spark.deploy.master.Master")
            self.master = self._wait_for("master", _STARTED)[1]
            names = [f"worker-{number}" for number in range(self._worker_count)]
            for name in names:
                options = ["--cores", "1", "--memory", "600M", "--work-dir", str(self.folder)]
                self._start(name, "org.apache.spark.deploy.worker.Worker", *options, self.master)
            for name in names:
                self._wait_for(name, _REGISTERED)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def _start(self, name: str, class_name: str, *args: str) -> None:
        address = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        environment = {
            **os.environ,
            "JAVA_HOME": str(find_java().path),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": _QUICK_START,
        }
        with open(self._log(name), "wb") as log:
            # The script becomes the JVM: it is the same process, and ends with it.
            self._processes[name] = subprocess.Popen(
                [_SPARK_CLASS, class_name, *address, *args],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
            )

    def _wait_for(self, name: str, line: re.Pattern[str]) -> re.Match[str]:
        deadline_s = time.monotonic() + _START_TIMEOUT_S
        while time.monotonic() < deadline_s:
            has_ended = self._processes[name].poll() is not None
            text = self._log(name).read_text(errors="replace")
            if (found := line.search(text)) is not None:
                return found
            assert not has_ended, f"the {name} ended:\n{text}"
            time.sleep(0.05)
        raise TimeoutError(f"the {name} is not there after {_START_TIMEOUT_S} s:\n{text}")

    def _log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def _end(self) -> None:
        """Workers first, which take their executors with them."""
        for process in reversed(self._processes.values()):
            process.terminate()
        for process in self._processes.values():
            try:
                process.wait(_STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
