"""One Spark for all tests of the pipeline: starting one costs some seconds."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from ottla.pipeline.run.session import new_session
from tests.support.counts import IS_FULL
from tests.support.side_by_side import SUBJECTS, Subject
from tools import spark_connector

# Also of the drivers that tests start. None of them lives for as long as the JVM's second compiler,
# and a collector on many threads, need to pay off.
os.environ["SPARK_SUBMIT_OPTS"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

collect_ignore = [] if IS_FULL else ["test_demo_bounds.py"]
"""Takes minutes, and with less it could not fail."""


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Two cores. A test stops the queries that it started, and names views and tables so that no
    other test has the same. Spark's own connector is there for tests that compare with it."""
    settings = {}
    if spark_connector.missing() is None:
        settings["spark.driver.extraClassPath"] = spark_connector.class_path()
    session = new_session(
        "ottla-tests",
        master="local[2]",
        settings=settings,
        folder=tmp_path_factory.mktemp("spark"),
    )
    yield session
    session.stop()


@pytest.fixture(params=SUBJECTS)
def subject(request: pytest.FixtureRequest) -> Iterator[Subject]:
    """Whom the pipeline reads and writes: the one as well as the other."""
    name = "shared_broker" if request.param == "Ottla" else "apache_kafka"
    with Subject(request.param, request.getfixturevalue(name).bootstrap) as subject:
        yield subject
