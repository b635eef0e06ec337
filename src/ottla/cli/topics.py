"""`ottla topics`: create, list, describe, alter and delete topics."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import click
from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    NewPartitions,
    NewTopic,
)

from ottla.cli.client import (
    METADATA_TIMEOUT_S,
    REQUEST_TIMEOUT_S,
    Cluster,
    client_options,
    find_topic,
    one_line,
    wait_for,
)
from ottla.cli.configs import Change, alter_entity, described_configs
from ottla.cli.errors import ExitCode, Failure
from ottla.cli.health import problems_of
from ottla.cli.offsets import EARLIEST, LATEST, offsets_of
from ottla.cli.options import json_option, pairs
from ottla.cli.suggestions import CommandGroup
from ottla.cli.tables import Column, heading, print_facts, print_json, print_table

_BROKER_DEFAULT = -1
_TOPIC_EXISTS = "(TOPIC_ALREADY_EXISTS)"
Json = dict[str, Any]


@click.group("topics", cls=CommandGroup)
def command() -> None:
    """Create, list, describe, alter and delete topics."""


@command.command("create")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.option(
    "-p", "--partitions", type=click.IntRange(1), help="How many. [default: the broker's]"
)
@click.option(
    "-r",
    "--replication-factor",
    type=click.IntRange(1),
    help="Copies of each partition. [default: the broker's]",
)
@click.option(
    "-c", "--config", "configs", multiple=True, metavar="KEY=VALUE", help="May be repeated."
)
@click.option("--if-not-exists", is_flag=True, help="A topic that is there already is no error.")
@client_options
def create(
    cluster: Cluster,
    names: tuple[str, ...],
    partitions: int | None,
    replication_factor: int | None,
    configs: tuple[str, ...],
    if_not_exists: bool,
) -> None:
    """Create topics.

    \b
    ottla topics create clicks --partitions 6
    ottla topics create audit -p 3 -r 3 -c retention.ms=-1 -c min.insync.replicas=2
    """
    settings = pairs(configs, "--config")
    topics = [
        NewTopic(
            name,
            num_partitions=partitions or _BROKER_DEFAULT,
            replication_factor=replication_factor or _BROKER_DEFAULT,
            config=settings,
        )
        for name in dict.fromkeys(names)
    ]
    admin = cluster.admin()
    created, failures = wait_for(admin.create_topics(topics, request_timeout=REQUEST_TIMEOUT_S))
    for name in created:
        print(f"created {name}")
    if if_not_exists:
        failures = {
            name: reason for name, reason in failures.items() if not reason.endswith(_TOPIC_EXISTS)
        }
    if failures:
        raise Failure(f"could not create {one_line(failures.items())}")


@command.command("list")
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


@command.command("describe")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--unhealthy", is_flag=True, help="Only what has a problem; exit code 1 if any.")
@click.option("--internal", is_flag=True, help="Without names: also the internal topics.")
@json_option
@client_options
def describe(
    cluster: Cluster, names: tuple[str, ...], unhealthy: bool, internal: bool, as_json: bool
) -> int:
    """Show topics: id, settings, and each partition with its health.

    A partition is offline without a leader, under-replicated when a replica is not in sync,
    under-min-isr when acks=all is refused, and not on preferred leader when another replica
    than the first one leads.

    \b
    With --json: [{"name", "topic_id", "internal", "configs": {NAME: {"value", "source"}},
      "partitions": [{"partition", "leader", "replicas", "isr", "earliest_offset",
      "latest_offset", "problems"}]}, ...]; what is not known is null.
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
        Column("REPLICAS"),
        Column("ISR"),
        Column("EARLIEST", is_number=True),
        Column("LATEST", is_number=True),
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


@command.command("alter")
@click.argument("name")
@click.option("-p", "--partitions", type=click.IntRange(1), help="The new count; it only grows.")
@click.option("-c", "--config", "configs", multiple=True, metavar="KEY=VALUE", help="Set.")
@click.option("--delete-config", "deleted", multiple=True, metavar="KEY", help="Back to default.")
@client_options
def alter(
    cluster: Cluster,
    name: str,
    partitions: int | None,
    configs: tuple[str, ...],
    deleted: tuple[str, ...],
) -> None:
    """Add partitions to a topic, or change its settings.

    \b
    ottla topics alter clicks --partitions 12
    ottla topics alter clicks -c retention.ms=3600000 --delete-config cleanup.policy

    More partitions send the keys of old records elsewhere: records of one key may then lie in
    two partitions.
    """
    if partitions is None and not configs and not deleted:
        raise click.UsageError("nothing to alter: give --partitions, --config or --delete-config")
    changes: list[Change] = [
        (AlterConfigOpType.SET, k, v) for k, v in pairs(configs, "--config").items()
    ]
    changes += [(AlterConfigOpType.DELETE, key, None) for key in deleted]
    admin = cluster.admin()
    find_topic(admin, name)
    if changes:
        alter_entity(admin, "topic", name, changes)
    if partitions is not None:
        _raise_if_failed(
            admin.create_partitions(
                [NewPartitions(name, partitions)], request_timeout=REQUEST_TIMEOUT_S
            ),
            "could not add partitions to",
        )
    print(f"altered {name}")


@command.command("delete")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@client_options
def delete(cluster: Cluster, names: tuple[str, ...], yes: bool) -> None:
    """Delete topics with all their records. On a terminal it asks first."""
    unique = list(dict.fromkeys(names))
    admin = cluster.admin()
    for name in unique:
        find_topic(admin, name)
    question = f"Delete {', '.join(unique)} with all records?"
    if sys.stdin.isatty() and not yes and not click.confirm(question, err=True):
        raise Failure("nothing was deleted")
    _raise_if_failed(
        admin.delete_topics(unique, request_timeout=REQUEST_TIMEOUT_S), "could not delete"
    )
    for name in unique:
        print(f"deleted {name}")


def _raise_if_failed(futures: Mapping[str, Any], what: str) -> None:
    try:
        _, failures = wait_for(futures)
    except KafkaException as error:
        raise Failure(f"{what}: {error}") from error
    if failures:
        raise Failure(f"{what} {one_line(failures.items())}")
