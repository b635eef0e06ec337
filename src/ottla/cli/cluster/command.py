"""`ottla cluster`: brokers, health and totals on one screen."""

from __future__ import annotations

import sys

import click

from ottla.cli.client import Cluster, client_options
from ottla.cli.cluster.read import Json, described_cluster, software_text
from ottla.cli.health import health_text
from ottla.cli.options import json_option
from ottla.cli.tables import (
    Column,
    heading,
    or_dash,
    print_facts,
    print_json,
    print_table,
    size_text,
)

_COLUMNS = [
    Column("BROKER", is_number=True),
    Column("ADDRESS"),
    Column("RACK", rank=4),
    Column("CONTROLLER", rank=1),
    Column("LEADS", is_number=True, rank=3),
    Column("REPLICAS", is_number=True, rank=5),
    Column("SIZE", is_number=True, rank=2),
]


@click.command("cluster")
@json_option
@client_options
def command(cluster: Cluster, as_json: bool) -> None:
    """Show a cluster: its brokers, its health, and how much it holds.

    SIZE is that on disk, of all replicas. LEADS and REPLICAS count partitions. Brokers of Apache
    Kafka with KRaft do not say which of their nodes is the controller, and of their version only
    the release.

    \b
    With --json: {"cluster_id", "controller_id", "brokers": [{"id", "host", "port", "rack",
      "is_controller", "software", "version", "leads", "replicas", "size_bytes"}],
      "missing_brokers": [ID], "topics", "internal_topics", "partitions", "groups", "size_bytes",
      "problems": {PROBLEM: PARTITIONS}}; what is not known is null.
    """
    found = described_cluster(cluster, cluster.admin())
    if as_json:
        print_json(found)
    else:
        _print_cluster(found)


def _print_cluster(found: Json) -> None:
    heading(f"Cluster {found['cluster_id']}")
    size = "-" if found["size_bytes"] is None else f"{size_text(found['size_bytes'])} on disk"
    internal = f", {found['internal_topics']} internal" if found["internal_topics"] else ""
    print_facts(
        [
            ("software", software_text(found["brokers"])),
            ("topics", f"{found['topics']:,}{internal}"),
            ("partitions", f"{found['partitions']:,}"),
            ("groups", "-" if found["groups"] is None else f"{found['groups']:,}"),
            ("size", size),
            ("health", health_of(found)),
        ]
    )
    print()
    _print_brokers(found["brokers"])
    if any(found["problems"].values()) and sys.stdout.isatty():
        print("\nottla topics describe --unhealthy --internal")


def health_of(found: Json) -> str:
    """Of the partitions, and which brokers should be there and are not."""
    problems = health_text(found["problems"])
    missing = found["missing_brokers"]
    if not missing:
        return problems
    brokers = f"broker{'' if len(missing) == 1 else 's'} {', '.join(map(str, missing))}"
    gone = f"{brokers} {'is' if len(missing) == 1 else 'are'} missing"
    return gone if problems == "ok" else f"{problems}; {gone}"


def _print_brokers(brokers: list[Json]) -> None:
    rows = [
        [
            str(broker["id"]),
            f"{broker['host']}:{broker['port']}",
            or_dash(broker["rack"]),
            {True: "yes", False: "", None: "-"}[broker["is_controller"]],
            f"{broker['leads']:,}",
            f"{broker['replicas']:,}",
            "-" if broker["size_bytes"] is None else size_text(broker["size_bytes"]),
        ]
        for broker in brokers
    ]
    print_table(_COLUMNS, rows)
