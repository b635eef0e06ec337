"""Generated events through a job: sent to a topic, read until all is read, and what it wrote."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import confluent_kafka
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from ottla.pipeline.generate.event import Event
from ottla.pipeline.jobs.job import Job, Settings
from ottla.pipeline.run.runner import JobRun
from ottla.pipeline.run.settings import new_settings
from tests.support.markers import wait_for_markers


def settings_of(job: Job, bootstrap: str, folder: Path, topic: str, **given: Any) -> Settings:
    """All names begin with that of the topic, so that tests do not meet."""
    return new_settings(
        job,
        {
            "bootstrap": bootstrap,
            "folder": str(folder / "job"),
            "lake": str(folder / "lake"),
            "topics": topic,
            "output_prefix": f"{topic}-",
            "group_prefix": f"{topic}-",
            **given,
        },
    )


def send(bootstrap: str, topic: str, events: Iterable[Event[Any]]) -> None:
    """By key, as `ottla generate` does."""
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    for event in events:
        producer.produce(topic, event.value, event.key)
        producer.poll(0)
    assert producer.flush(60) == 0


def after_all_so_far() -> int:
    """A timestamp that no record has that was sent before, and all have that will be."""
    time.sleep(0.01)
    return time.time_ns() // 1_000_000


def run_once(spark: SparkSession, job: Job, settings: Settings) -> None:
    """Until all that is there is read. Raises what the run raises."""
    run = JobRun(job, settings, spark, is_once=True)
    try:
        run.start()
        while run.poll():
            time.sleep(0.05)
    finally:
        run.close()


def table_rows(settings: Settings, table: str) -> list[dict[str, Any]]:
    """As deltalake, without Spark, reads them."""
    rows: list[dict[str, Any]] = (
        DeltaTable(f"{settings.lake}/{table}").to_pyarrow_table().to_pylist()
    )
    return rows


def topic_values(spark: SparkSession, settings: Settings, topic: str) -> list[tuple[str, Any]]:
    """Keys, and values parsed as JSON, of what is committed."""
    name = settings.output_topic(topic)
    wait_for_markers(settings.bootstrap, name)
    reader = spark.read.format("ottla").option("kafka.bootstrap.servers", settings.bootstrap)
    rows = reader.option("subscribe", name).load().collect()
    return [(bytes(row.key).decode(), json.loads(bytes(row.value))) for row in rows]
