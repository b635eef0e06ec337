"""`ottla simulate` in processes of its own, and a seed that fails in them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

# Python imports it before anything else, in children as well. Whatever happened, this is found.
MUTATION = """
from ottla.testing.history.anomaly import Anomaly, AnomalyKind
from ottla.testing.simulation import run

assert hasattr(run, "find_anomalies")
run.find_anomalies = lambda *_: [Anomaly(AnomalyKind.LOST_WRITE, "made up")]
"""


def simulate(
    arguments: list[str], folder: Path, hash_seed: str
) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(folder), *sys.path])
    return subprocess.run(
        [sys.executable, "-m", "ottla", "simulate", *arguments],
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )


def test_what_it_prints_of_a_failing_seed_replays_it_in_another_process(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(MUTATION)
    done = simulate(["--seed", "1", "--json"], tmp_path, "1")
    assert done.returncode == 1, done.stderr
    found = json.loads(done.stdout)
    (failed,) = found["failed"]
    assert failed["problems"] == ["lost write: made up"]
    assert failed["faults"] == [], "it fails without any"
    assert sum(found["exercised"][name]["count"] for name in found["exercised"]) > 0

    _, _, *arguments = failed["replay"].split()
    again = simulate(arguments, tmp_path, "2")
    assert again.returncode == 1, again.stderr
    last = again.stdout.splitlines()[-1]
    assert last == f"seed 1: failed, 0 faults, trace hash {failed['hash']}"
    assert "broker1     runs          has started" in again.stdout
