"""The clients of Apache Kafka 3.9, from Maven Central: the last with the requests by which a
controller and its brokers speak to each other beside ZooKeeper.

from tools.kafka_3_clients import missing, program_command

missing()                                   # None, or a sentence that says what is not installed
program_command("InterBrokerMessages.java") # the argv of a program of ours, with their classes
"""

from __future__ import annotations

from pathlib import Path

from tools.jars import Jars

_JARS = Jars("Apache Kafka 3.9's clients", Path(__file__).parent / "pom.xml", "kafka-3-clients")
_QUICK_START = ["-Xmx128M", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]

missing = _JARS.missing


def program_command(source: Path | str) -> list[str]:
    return ["java", *_QUICK_START, "-cp", f"{_JARS.folder()}/*", str(source)]
