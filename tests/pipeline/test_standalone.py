"""On a real standalone cluster of two workers, the source and the sink do as they do locally."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import confluent_kafka
import pytest

from tests.support.ottla_process import OttlaProcess
from tests.support.read_back import read_back
from tests.support.side_by_side import Subject
from tests.support.spark_cluster import SparkCluster

ROOT = Path(__file__).resolve().parents[2]
PARTITIONS = 4
ROWS = 400


@pytest.mark.timeout(300)
def test_topic_to_topic_exactly_once_on_two_workers(
    shared_broker: OttlaProcess, tmp_path: Path
) -> None:
    with Subject("Ottla", shared_broker.bootstrap) as subject:
        subject.create("standalone-from", PARTITIONS)
        subject.create("standalone-to", PARTITIONS)
    producer = confluent_kafka.Producer({"bootstrap.servers": shared_broker.bootstrap})
    for number in range(ROWS):
        producer.produce(
            "standalone-from",
            b"%d" % number,
            key=b"k%d" % (number % 7),
            headers=[("n", b"%d" % number)],
            partition=number % PARTITIONS,
        )
    assert producer.flush(30) == 0
    with SparkCluster(tmp_path, worker_count=2) as cluster:
        found = copied(cluster, shared_broker.bootstrap, tmp_path / "driver")
    assert found["rows"] == ROWS
    assert found["executors"] == 2
    assert found["batches"] > 1
    source, target = (
        [
            (one.partition, one.key, one.value, one.headers)
            for one in read_back(shared_broker.bootstrap, topic)
        ]
        for topic in ("standalone-from", "standalone-to")
    )
    assert target == source


def copied(cluster: SparkCluster, bootstrap: str, folder: Path) -> dict[str, int]:
    script = Path(__file__).parent / "drivers" / "copy_topic.py"
    topics = ["standalone-from", "standalone-to"]
    done = subprocess.run(
        [sys.executable, script, cluster.master, bootstrap, *topics, folder],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return found
