"""The ZooKeeper that comes inside the pyspark wheel."""

from __future__ import annotations

import glob
import os
import re
from importlib.util import find_spec

from ottla.cli.errors import ExitCode, Failure

# What a server loads of the 250 jars there. Its metrics and its snapshots refer to the last two.
_NAMES = (
    "zookeeper",
    "zookeeper-jute",
    "slf4j-api",
    "log4j-slf4j2-impl",
    "log4j-api",
    "log4j-core",
    "metrics-core",
    "snappy-java",
)
_VERSION = re.compile(r"zookeeper-(\d[^/]*)\.jar$")


def zookeeper_jars() -> list[str]:
    """Their paths. pyspark is not imported for it: that takes a second."""
    spec = find_spec("pyspark")
    folders = spec.submodule_search_locations if spec is not None else None
    if not folders:
        raise Failure(
            "the ZooKeeper server comes with Spark's package, and pyspark is not installed: "
            "pip install 'ottla[pipeline]'",
            ExitCode.USAGE,
        )
    folder = os.path.join(folders[0], "jars")
    return [_find(folder, name) for name in _NAMES]


def version_of(jars: list[str]) -> str:
    found = _VERSION.search(jars[0])
    assert found is not None, f"{jars[0]} is not ZooKeeper's"
    return found[1]


def _find(folder: str, name: str) -> str:
    found = glob.glob(f"{glob.escape(folder)}/{name}-[0-9]*.jar")
    if not found:
        raise Failure(
            f"there is no {name} in {folder}: this pyspark brings no ZooKeeper server; "
            "pip install 'ottla[pipeline]' installs one that does"
        )
    return found[0]
