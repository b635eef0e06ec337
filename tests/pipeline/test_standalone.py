"""On a real standalone cluster of two workers, the source, the sink and the pipelines do as they do
locally."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest

from ottla.pipeline.generate.event import limited
from ottla.pipeline.generate.logs import Generator
from tests.support.ottla_process import OttlaProcess
from tests.support.pipeline_cli import PipelineCli
from tests.support.read_back import read_back
from tests.support.side_by_side import Subject
from tests.support.spark_cluster import SparkCluster

ROOT = Path(__file__).resolve().parents[2]
PARTITIONS = 4
ROWS = 400
LINES = 3000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with SparkCluster(tmp_path_factory.mktemp("cluster"), worker_count=2) as cluster:
        yield cluster


@pytest.mark.timeout(300)
def test_topic_to_topic_exactly_once_on_two_workers(
    shared_broker: OttlaProcess, cluster: SparkCluster, tmp_path: Path
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


@pytest.mark.timeout(300)
def test_a_pipeline_on_two_workers(
    shared_broker: OttlaProcess, cluster: SparkCluster, tmp_path: Path
) -> None:
    cli, topic = PipelineCli(shared_broker.bootstrap, tmp_path), "standalone-logs"
    with Subject("Ottla", shared_broker.bootstrap) as subject:
        subject.create(topic, PARTITIONS)
    start_ms = 1_767_225_600_000
    generate = ["--count", str(LINES), "--rate", "5", "--seed", "3", "--fast", "--topic", topic]
    cli.run("generate", "logs", *generate, "--start", str(start_ms))
    settings = ["--set", "spark.executor.memory=600m", "--set", "spark.driver.host=127.0.0.1"]
    settings += ["--set", "spark.sql.shuffle.partitions=2"]
    done = cli.run(*cli.job_args("run", topic, master=cluster.master), *settings, "--once")
    said = [json.loads(line) for line in done.stdout.splitlines()]
    assert sum(one["rows"] for one in said if one.get("query") == "lines") == LINES
    events = list(limited(Generator(3, 5.0, start_ms), count=LINES))
    assert cli.rows("dead_letters") == sum(event.is_broken for event in events) > 0
    assert cli.rows("logs") == LINES - cli.rows("dead_letters")
    rates = read_back(shared_broker.bootstrap, f"{topic}-logs-error-rates")
    assert len(rates) == cli.rows("logs_error_rates") > 0
