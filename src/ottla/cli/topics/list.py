"""`ottla topics list`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click
from confluent_kafka.admin import AdminClient

from ottla.cli.client import METADATA_TIMEOUT_S, Cluster, client_options
from ottla.cli.command_line import command_line
from ottla.cli.health import health_text, problems_by_topic
from ottla.cli.log_dirs import replicas_on_disk, sizes_by_topic
from ottla.cli.offsets import EARLIEST, LATEST, Partition, offsets_of
from ottla.cli.options import json_option
from ottla.cli.tables import Column, or_dash, print_json, print_table, size_text

Json = dict[str, Any]

NO_TOPICS = f"No topics yet. Create one: {command_line('topics create NAME')}"

_COLUMNS = [
    Column("TOPIC"),
    Column("PARTITIONS", is_number=True, rank=3),
    Column("REPLICAS", is_number=True, rank=4),
    Column("RECORDS", is_number=True),
    Column("SIZE", is_number=True, rank=2),
    Column("HEALTH", rank=1),
]


@click.command("list")
@click.option("--internal", is_flag=True, help="Also topics that begin with two underscores.")
@click.option("--names", "only_names", is_flag=True, help="Names only, one per line.")
@json_option
@client_options
def list_topics(cluster: Cluster, internal: bool, only_names: bool, as_json: bool) -> None:
    """List topics with their size and health.

    RECORDS is the latest offset minus the earliest, which is too high for topics that are compacted
    or written in transactions. SIZE is on disk, of all replicas.

    \b
    With --json: [{"name", "partitions", "replication_factor", "records", "size_bytes",
      "problems": {PROBLEM: PARTITIONS}, "internal"}, ...]; unknown values are null.
    """
    admin = cluster.admin()
    metadata = admin.list_topics(timeout=METADATA_TIMEOUT_S)
    names = sorted(name for name in metadata.topics if internal or not name.startswith("__"))
    if only_names:
        print("".join(f"{name}\n" for name in names), end="")
        return
    topics = _described(cluster, admin, metadata, names) if names else []
    if as_json:
        print_json(topics)
    elif topics:
        _print_list(topics)
    elif sys.stdout.isatty():
        print(NO_TOPICS)


def _described(
    cluster: Cluster, admin: AdminClient, metadata: Any, names: Sequence[str]
) -> list[Json]:
    found = {name: metadata.topics[name] for name in names}
    counts = _record_counts(
        admin, [(name, number) for name in names for number in found[name].partitions]
    )
    replicas = replicas_on_disk(cluster, metadata.brokers.values())
    sizes = None if replicas is None else sizes_by_topic(replicas)
    problems = problems_by_topic(admin, found)
    return [
        {
            "name": name,
            "partitions": len(topic.partitions),
            "replication_factor": max(
                (len(partition.replicas) for partition in topic.partitions.values()), default=0
            ),
            "records": _sum_of([counts.get((name, number)) for number in topic.partitions]),
            "size_bytes": None if sizes is None else sizes.get(name, 0),
            "problems": dict(problems[name]),
            "internal": name.startswith("__"),
        }
        for name, topic in found.items()
    ]


def _record_counts(admin: AdminClient, partitions: Sequence[Partition]) -> dict[Partition, int]:
    earliest = offsets_of(admin, partitions, EARLIEST)
    latest = offsets_of(admin, partitions, LATEST)
    return {key: latest[key] - earliest[key] for key in latest if key in earliest}


def _sum_of(counts: Sequence[int | None]) -> int | None:
    """Unknown as soon as one part of it is."""
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _print_list(topics: Sequence[Json]) -> None:
    rows = [
        [
            topic["name"],
            str(topic["partitions"]),
            str(topic["replication_factor"]),
            or_dash(topic["records"]),
            "-" if topic["size_bytes"] is None else size_text(topic["size_bytes"]),
            health_text(topic["problems"]),
        ]
        for topic in topics
    ]
    print_table(_COLUMNS, rows)
