"""`ottla topics list`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click
from confluent_kafka.admin import AdminClient

from ottla.cli.client import METADATA_TIMEOUT_S, Cluster, client_options
from ottla.cli.offsets import EARLIEST, LATEST, offsets_of
from ottla.cli.options import json_option
from ottla.cli.tables import Column, print_json, print_table

Json = dict[str, Any]


@click.command("list")
@click.option("--internal", is_flag=True, help="Also those that begin with two underscores.")
@click.option("--names", "only_names", is_flag=True, help="Names only, one a line.")
@json_option
@client_options
def list_topics(cluster: Cluster, internal: bool, only_names: bool, as_json: bool) -> None:
    """List topics, with how much is in them.

    RECORDS is the latest offset less the earliest: what compaction and transactions leave out
    is still counted.

    With --json: [{"name", "partitions", "replication_factor", "records", "internal"}, ...].
    """
    admin = cluster.admin()
    metadata = admin.list_topics(timeout=METADATA_TIMEOUT_S).topics
    names = sorted(name for name in metadata if internal or not name.startswith("__"))
    if only_names:
        print("".join(f"{name}\n" for name in names), end="")
        return
    partitions = [(name, number) for name in names for number in metadata[name].partitions]
    counts = _record_counts(admin, partitions)
    topics: list[Json] = [
        {
            "name": name,
            "partitions": len(metadata[name].partitions),
            "replication_factor": max(
                (len(partition.replicas) for partition in metadata[name].partitions.values()),
                default=0,
            ),
            "records": _sum_of([counts.get((name, n)) for n in metadata[name].partitions]),
            "internal": name.startswith("__"),
        }
        for name in names
    ]
    if as_json:
        print_json(topics)
    elif topics:
        _print_list(topics)
    elif sys.stdout.isatty():
        print("no topics yet; create one with `ottla topics create NAME`")


def _record_counts(
    admin: AdminClient, partitions: Sequence[tuple[str, int]]
) -> dict[tuple[str, int], int]:
    earliest = offsets_of(admin, partitions, EARLIEST)
    latest = offsets_of(admin, partitions, LATEST)
    return {key: latest[key] - earliest[key] for key in latest if key in earliest}


def _sum_of(counts: Sequence[int | None]) -> int | None:
    """Unknown as soon as one part of it is."""
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _print_list(topics: Sequence[Json]) -> None:
    columns = [
        Column("TOPIC"),
        Column("PARTITIONS", is_number=True),
        Column("REPLICAS", is_number=True),
        Column("RECORDS", is_number=True),
    ]
    keys = ("partitions", "replication_factor", "records")
    print_table(
        columns, [[topic["name"], *(_text(topic[key]) for key in keys)] for topic in topics]
    )


def _text(number: int | None) -> str:
    return "?" if number is None else str(number)
