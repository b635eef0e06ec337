"""Which jars Apache Kafka is."""

from __future__ import annotations

import re
from pathlib import Path

from tools.jars import Jars

_POM = Path(__file__).resolve().parent / "pom.xml"


def _version() -> str:
    found = re.search(r"<kafka\.version>(.+?)</kafka\.version>", _POM.read_text())
    assert found, f"{_POM} names no kafka.version"
    return found[1]


VERSION = _version()
_JARS = Jars("Apache Kafka", _POM, f"apache-kafka-{VERSION}")

missing = _JARS.missing
libs = _JARS.folder
