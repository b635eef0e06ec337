"""`ottla topics describe`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click
from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient

from ottla.cli.client import (
    METADATA_TIMEOUT_S,
    REQUEST_TIMEOUT_S,
    Cluster,
    client_options,
    find_topic,
    one_line,
    wait_for,
)
from ottla.cli.configs import described_configs
from ottla.cli.errors import ExitCode, Failure
from ottla.cli.health import problems_of
from ottla.cli.name_completion import complete_topic
from ottla.cli.offsets import EARLIEST, LATEST, offsets_of
from ottla.cli.options import json_option
from ottla.cli.tables import Column, heading, print_facts, print_json, print_table
from ottla.cli.topics.list import NO_TOPICS

Json = dict[str, Any]


@click.command("describe")
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=complete_topic)
@click.option(
    "--unhealthy",
    is_flag=True,
    help="Only partitions with a problem; exit code 1 if there are any.",
)
@click.option("--internal", is_flag=True, help="Without NAME: also internal topics.")
@json_option
@client_options
def describe(
    cluster: Cluster, names: tuple[str, ...], unhealthy: bool, internal: bool, as_json: bool
) -> int:
    """Show topics: id, settings, and each partition with its health.

    A partition is offline if it has no leader, under-replicated if a replica is not in sync,
    under-min-isr if acks=all is refused, and not on preferred leader if its leader is not its first
    replica.

    \b
    With --json: [{"name", "topic_id", "internal", "configs": {NAME: {"value", "source"}},
      "partitions": [{"partition", "leader", "replicas", "isr", "earliest_offset",
      "latest_offset", "problems"}]}, ...]; unknown values are null.
    """
    admin = cluster.admin()
    if not names:
        known = admin.list_topics(timeout=METADATA_TIMEOUT_S).topics
        names = tuple(sorted(n for n in known if internal or not n.startswith("__")))
    topics = _describe_all(admin, names) if names else []
    if unhealthy:
        topics = [_only_unhealthy(topic) for topic in topics]
        topics = [topic for topic in topics if topic["partitions"]]
    if as_json:
        print_json(topics)
    elif unhealthy and not topics:
        print("every partition is healthy")
    elif not topics and sys.stdout.isatty():
        print(NO_TOPICS)
    else:
        for index, topic in enumerate(topics):
            _print_topic(topic, is_first=index == 0)
    return ExitCode.FAILED if unhealthy and topics else ExitCode.OK


def _describe_all(admin: AdminClient, names: Sequence[str]) -> list[Json]:
    unique = list(dict.fromkeys(names))
    futures = admin.describe_topics(TopicCollection(unique), request_timeout=REQUEST_TIMEOUT_S)
    described, failures = wait_for(futures)
    for name in failures:
        find_topic(admin, name)  # says it best when the topic is not there
    if failures:
        raise Failure(f"could not describe {one_line(failures.items())}")
    partitions = [(name, info.id) for name, topic in described.items() for info in topic.partitions]
    earliest = offsets_of(admin, partitions, EARLIEST)
    latest = offsets_of(admin, partitions, LATEST)
    configs = described_configs(admin, "topic", unique)
    return [
        {
            "name": name,
            "topic_id": kafka_uuid(str(described[name].topic_id)),
            "internal": described[name].is_internal,
            "configs": {
                key: {"value": entry["value"], "source": entry["source"]}
                for key, entry in configs[name].items()
                if entry["source"] != "default"
            },
            "partitions": [
                _partition(
                    info,
                    int(configs[name]["min.insync.replicas"]["value"]),
                    earliest.get((name, info.id)),
                    latest.get((name, info.id)),
                )
                for info in sorted(described[name].partitions, key=lambda info: info.id)
            ],
        }
        for name in unique
    ]


def kafka_uuid(text: str) -> str:
    """librdkafka writes ids in plain base64, Kafka's own tools and files in the URL-safe one."""
    return text.replace("+", "-").replace("/", "_")


def _partition(info: Any, min_isr: int, earliest: int | None, latest: int | None) -> Json:
    leader = info.leader.id if info.leader is not None and info.leader.id >= 0 else None
    replicas = [node.id for node in info.replicas]
    isr = [node.id for node in info.isr]
    return {
        "partition": info.id,
        "leader": leader,
        "replicas": replicas,
        "isr": isr,
        "earliest_offset": earliest,
        "latest_offset": latest,
        "problems": problems_of(leader, replicas, isr, min_isr),
    }


def _only_unhealthy(topic: Json) -> Json:
    return {**topic, "partitions": [part for part in topic["partitions"] if part["problems"]]}


def _print_topic(topic: Json, *, is_first: bool) -> None:
    if not is_first:
        print()
    heading(topic["name"])
    partitions = topic["partitions"]
    configs = [f"{k}={v['value']} ({v['source']})" for k, v in topic["configs"].items()]
    facts = [("id", topic["topic_id"]), ("partitions", str(len(partitions)))]
    facts.extend(("settings" if index == 0 else "", text) for index, text in enumerate(configs))
    print_facts(facts)
    columns = [
        Column("PARTITION", is_number=True),
        Column("LEADER", is_number=True),
        Column("REPLICAS", rank=3),
        Column("ISR", rank=4),
        Column("EARLIEST", is_number=True, rank=2),
        Column("LATEST", is_number=True, rank=1),
        Column("HEALTH"),
    ]
    print_table(
        columns,
        [
            [
                str(part["partition"]),
                "none" if part["leader"] is None else str(part["leader"]),
                ",".join(map(str, part["replicas"])),
                ",".join(map(str, part["isr"])),
                _text(part["earliest_offset"]),
                _text(part["latest_offset"]),
                ", ".join(part["problems"]) or "ok",
            ]
            for part in partitions
        ],
    )


def _text(number: int | None) -> str:
    return "?" if number is None else str(number)
