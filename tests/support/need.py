"""Tools that not every machine has. A test that needs one is skipped where it is missing, with
the reason in the summary; on CI every skip is a failure (tests/conftest.py)."""

from __future__ import annotations

import shutil

import pytest

from tools import apache_kafka, kafka_3_clients, spark_connector


def need_apache_kafka() -> None:
    """Java, and the jars or Maven to fetch them."""
    if (reason := apache_kafka.missing()) is not None:
        pytest.skip(reason)
    apache_kafka.libs()


def need_kafka_3_clients() -> None:
    """Java, and the jars or Maven to fetch them."""
    if (reason := kafka_3_clients.missing()) is not None:
        pytest.skip(reason)


def need_spark_connector() -> None:
    """The jars of Spark's own Kafka connector, or what it takes to fetch them."""
    if (reason := spark_connector.missing()) is not None:
        pytest.skip(reason)


def need_java() -> None:
    need_command("java", "Java")


def need_kcat() -> str:
    """Its name: some systems still call it kafkacat."""
    for name in ("kcat", "kafkacat"):
        if shutil.which(name):
            return name
    pytest.skip("kcat is not installed")


def need_chromium() -> str:
    """Its path: there are several names for it, and for what Google builds of it."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if (path := shutil.which(name)) is not None:
            return path
    pytest.skip("chromium is not installed")


def need_command(command: str, name: str | None = None) -> None:
    if shutil.which(command) is None:
        pytest.skip(f"{name or command} is not installed")
