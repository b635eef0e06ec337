"""`ottla pipeline` in a process of its own, as a user runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

_SRC = Path(__file__).resolve().parents[2] / "src"


class PipelineCli:
    """Runs `ottla` against one broker, with its outputs in one folder. The job is `logs`, where
    none is named."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        self.folder = folder
        self.said = folder / "stderr"
        path = os.pathsep.join([str(_SRC), os.environ.get("PYTHONPATH", "")])
        self._env = {**os.environ, "OTTLA_BOOTSTRAP": bootstrap, "PYTHONPATH": path}
        self._of_the_job = ["--folder", str(folder / "job"), "--lake", str(folder / "lake")]

    def run(self, *args: str, exit_code: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "ottla", *args],
            env=self._env,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == exit_code, done.stdout + done.stderr
        return done

    def job_args(self, command: str, topic: str, *, master: str = "local[2]") -> list[str]:
        settings = ["--set", f"output_prefix={topic}-", "--set", f"group_prefix={topic}-"]
        return [
            *("pipeline", command, "logs", "--topics", topic, "--master", master, "--json"),
            *(*self._of_the_job, *settings),
        ]

    def status(self) -> dict[str, Any]:
        folder = str(self.folder / "job")
        done = self.run("pipeline", "status", "logs", "--folder", folder, "--json")
        return {query["query"]: query for query in json.loads(done.stdout)}

    @contextmanager
    def running(self, *args: str) -> Iterator[subprocess.Popen[str]]:
        """What it says goes to a file: nobody reads it while it runs."""
        with (
            self.said.open("w") as said,
            subprocess.Popen(
                [sys.executable, "-m", "ottla", *args],
                env=self._env,
                stdout=subprocess.PIPE,
                stderr=said,
                text=True,
            ) as process,
        ):
            try:
                yield process
            finally:
                process.kill()

    def rows(self, table: str) -> int:
        return int(DeltaTable(self.folder / "lake" / table).to_pyarrow_table().num_rows)
