"""A broker that ends with its parent."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_it_stops_in_order_when_its_standard_input_ends(tmp_path: Path) -> None:
    command = [sys.executable, "-P", "-m", "ottla.cli.tied_broker", "start"]
    command += ["--data-dir", str(tmp_path / "data"), "--listen", "127.0.0.1:0"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert "ready: broker 1" in process.stdout.readline()
            assert process.poll() is None
            _, err = process.communicate(timeout=30)  # which closes its standard input
        finally:
            process.kill()

    assert (process.returncode, err) == (0, "")
