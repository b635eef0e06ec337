"""Apache Kafka's file of a reassignment, which `kafka-reassign-partitions.sh` reads and writes:

{"version": 1, "partitions": [{"topic": "clicks", "partition": 0, "replicas": [1, 2]}, ...]}
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ottla.cli.errors import Failure
from ottla.cli.offsets import Partition
from ottla.cli.reassign.balanced_assignment import Assignment, Replicas


def encoded(assignment: Mapping[Partition, Replicas]) -> dict[str, Any]:
    return {
        "version": 1,
        "partitions": [
            {"topic": topic, "partition": partition, "replicas": list(replicas)}
            for (topic, partition), replicas in sorted(assignment.items())
        ],
    }


def decoded(text: str, name: str) -> Assignment:
    """Raises Failure, which names the file, for what is no reassignment."""
    if not text.strip():
        raise Failure(f"{name} is empty")
    try:
        found = json.loads(_last_object(text))
    except ValueError as error:
        raise Failure(f"{name} is not JSON: {error}") from error
    entries = found.get("partitions") if isinstance(found, dict) else None
    if not isinstance(entries, list) or found.get("version", 1) != 1:
        raise Failure(f'{name} is no reassignment: it has no {{"version": 1, "partitions": [...]}}')
    assignment: Assignment = {}
    for entry in entries:
        key, replicas = _decoded_entry(entry, name)
        if key in assignment:
            raise Failure(f"{name} has {key[0]}:{key[1]} twice")
        assignment[key] = replicas
    if not assignment:
        raise Failure(f"{name} has no partitions in it")
    return assignment


def _last_object(text: str) -> str:
    """What kafka-reassign-partitions.sh --generate prints has the assignment of today first, and
    the proposed one in its last line."""
    lines = text.strip().splitlines()
    if lines and lines[0].startswith("Current partition replica assignment"):
        return lines[-1]
    return text


def _decoded_entry(entry: object, name: str) -> tuple[Partition, Replicas]:
    match entry:
        case {"topic": str(topic), "partition": int(partition), "replicas": list(replicas)}:
            where = f"{topic}:{partition} in {name}"
        case _:
            raise Failure(f"{name}: {entry!r} has no topic, partition and replicas")
    if not replicas or not all(isinstance(broker, int) and broker >= 0 for broker in replicas):
        raise Failure(f"{where}: replicas are not ids of brokers: {replicas}")
    if len(set(replicas)) < len(replicas):
        raise Failure(f"{where}: a broker has it twice: {replicas}")
    assert isinstance(entry, dict)
    if any(folder != "any" for folder in entry.get("log_dirs") or ()):
        raise Failure(f"{where}: moves between log_dirs are not supported; only 'any' is")
    return (topic, partition), tuple(replicas)
