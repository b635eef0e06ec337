"""Spark's own Kafka connector, from Maven Central: what our data source is compared with.

from tools.spark_connector import class_path, missing

missing()       # None, or a sentence that says what is not installed
class_path()    # for spark.driver.extraClassPath and spark.executor.extraClassPath
"""

from __future__ import annotations

from pathlib import Path

from tools.jars import Jars

_JARS = Jars("Spark's Kafka connector", Path(__file__).parent / "pom.xml", "spark-connector")

missing = _JARS.missing


def class_path() -> str:
    return f"{_JARS.folder()}/*"
