"""`ottla configs`: settings of topics, brokers and groups, with where each value comes from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
)

from ottla.cli.client import (
    METADATA_TIMEOUT_S,
    REQUEST_TIMEOUT_S,
    Cluster,
    client_options,
    find_topic,
    wait_for,
)
from ottla.cli.errors import Failure
from ottla.cli.name_completion import complete_entity, complete_setting
from ottla.cli.options import json_option, pairs
from ottla.cli.suggestions import CommandGroup, did_you_mean
from ottla.cli.tables import Column, print_json, print_table

Entry = dict[str, Any]
Change = tuple[AlterConfigOpType, str, str | None]

_SOURCES = {
    ConfigSource.DYNAMIC_TOPIC_CONFIG: "topic",
    ConfigSource.DYNAMIC_BROKER_CONFIG: "dynamic broker",
    ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG: "dynamic default broker",
    ConfigSource.STATIC_BROKER_CONFIG: "static broker",
    ConfigSource.DEFAULT_CONFIG: "default",
    ConfigSource.GROUP_CONFIG: "group",
}
_TYPES = click.Choice(["topic", "broker", "group"])


@click.group("configs", cls=CommandGroup)
def command() -> None:
    """Describe and alter settings of topics, brokers and groups."""


@command.command("describe")
@click.argument("entity_type", type=_TYPES, metavar="topic|broker|group")
@click.argument("name", shell_complete=complete_entity)
@click.option("--all", "show_all", is_flag=True, help="Also settings that have their default.")
@json_option
@client_options
def describe(cluster: Cluster, entity_type: str, name: str, show_all: bool, as_json: bool) -> None:
    """Show the settings of a topic, a group, or a broker by its id, that are not at their default.

    \b
    ottla configs describe topic clicks
    ottla configs describe broker 1 --all
    ottla configs describe group readers

    With --json: [{"name", "value", "source", "read_only", "sensitive"}, ...].
    """
    admin = cluster.admin()
    check_entity(admin, entity_type, name)
    entries = list(described_configs(admin, entity_type, [name])[name].values())
    if not show_all:
        entries = [entry for entry in entries if entry["source"] != "default"]
    if as_json:
        print_json(entries)
    elif entries:
        columns = [Column("NAME"), Column("VALUE"), Column("SOURCE", rank=1), Column("", rank=2)]
        print_table(
            columns,
            [
                [
                    entry["name"],
                    "(hidden)" if entry["sensitive"] else str(entry["value"] or ""),
                    entry["source"],
                    "read-only" if entry["read_only"] else "",
                ]
                for entry in entries
            ],
        )
    else:
        print(f"every setting of {entity_type} {name} is at its default; --all shows them")


@command.command("alter")
@click.argument("entity_type", type=_TYPES, metavar="topic|broker|group")
@click.argument("name", shell_complete=complete_entity)
@click.option(
    "--set",
    "sets",
    multiple=True,
    metavar="KEY=VALUE",
    shell_complete=complete_setting,
    help="Set a value.",
)
@click.option(
    "--delete",
    "deletes",
    multiple=True,
    metavar="KEY",
    shell_complete=complete_setting,
    help="Reset to the default.",
)
@click.option(
    "--append",
    "appends",
    multiple=True,
    metavar="KEY=VALUE",
    shell_complete=complete_setting,
    help="Add to a list.",
)
@click.option(
    "--subtract",
    "subtracts",
    multiple=True,
    metavar="KEY=VALUE",
    shell_complete=complete_setting,
    help="Remove from a list.",
)
@client_options
def alter(
    cluster: Cluster,
    entity_type: str,
    name: str,
    sets: tuple[str, ...],
    deletes: tuple[str, ...],
    appends: tuple[str, ...],
    subtracts: tuple[str, ...],
) -> None:
    """Change settings of a topic, a broker or a group; what is not named stays as it is.

    \b
    ottla configs alter topic clicks --set retention.ms=3600000
    ottla configs alter topic clicks --append cleanup.policy=compact
    ottla configs alter broker 1 --delete log.retention.ms
    ottla configs alter group readers --set consumer.session.timeout.ms=60000
    """
    changes: list[Change] = []
    for operation, texts, option in (
        (AlterConfigOpType.SET, sets, "--set"),
        (AlterConfigOpType.APPEND, appends, "--append"),
        (AlterConfigOpType.SUBTRACT, subtracts, "--subtract"),
    ):
        changes += [(operation, key, value) for key, value in pairs(texts, option).items()]
    changes += [(AlterConfigOpType.DELETE, key, None) for key in deletes]
    if not changes:
        raise click.UsageError("nothing to alter: give --set, --delete, --append or --subtract")
    admin = cluster.admin()
    check_entity(admin, entity_type, name)
    alter_entity(admin, entity_type, name, changes)
    print(f"altered {entity_type} {name}")


def check_entity(admin: AdminClient, entity_type: str, name: str) -> None:
    """librdkafka waits a minute for a broker that does not exist; this says so at once."""
    if entity_type == "topic":
        find_topic(admin, name)
        return
    if entity_type == "group":
        return  # Of any name: it may have settings before it has members.
    brokers = sorted(admin.list_topics(timeout=METADATA_TIMEOUT_S).brokers)
    if name not in map(str, brokers):
        raise Failure(f"there is no broker {name}; the cluster has {', '.join(map(str, brokers))}")


def described_configs(
    admin: AdminClient, entity_type: str, names: Sequence[str]
) -> dict[str, dict[str, Entry]]:
    """The settings of each entity by name, sorted, in one request."""
    found, failures = _ask_configs(admin, entity_type, names)
    for name, reason in failures.items():
        raise Failure(f"could not read the settings of {entity_type} {name}: {reason}")
    return found


def readable_configs(
    admin: AdminClient, entity_type: str, names: Sequence[str]
) -> dict[str, dict[str, Entry]]:
    """As `described_configs`, without those that cannot be read: a topic may be deleted meanwhile,
    or its settings not be for this user."""
    return _ask_configs(admin, entity_type, names)[0]


def _ask_configs(
    admin: AdminClient, entity_type: str, names: Sequence[str]
) -> tuple[dict[str, dict[str, Entry]], dict[str, str]]:
    """The settings by name, and why others could not be read."""
    resources = [ConfigResource(entity_type, name) for name in names]
    futures = admin.describe_configs(resources, request_timeout=REQUEST_TIMEOUT_S)
    answers, failures = wait_for(futures)
    found = {
        resource.name: {key: _entry(entries[key]) for key in sorted(entries)}
        for resource, entries in answers.items()
    }
    return found, {resource.name: reason for resource, reason in failures.items()}


def alter_entity(
    admin: AdminClient, entity_type: str, name: str, changes: Sequence[Change]
) -> None:
    entries = [
        ConfigEntry(key, value, incremental_operation=operation)
        for operation, key, value in changes
    ]
    resource = ConfigResource(entity_type, name, incremental_configs=entries)
    futures = admin.incremental_alter_configs([resource], request_timeout=REQUEST_TIMEOUT_S)
    _, failures = wait_for(futures)
    for reason in failures.values():
        hint = _meant(admin, entity_type, name, [key for _, key, _ in changes])
        # Ottla's brokers ask that themselves.
        more = f"; {hint}" if hint and "Did you mean" not in reason else ""
        raise Failure(f"could not alter {entity_type} {name}: {reason}{more}")


def _meant(admin: AdminClient, entity_type: str, name: str, keys: Sequence[str]) -> str:
    known = described_configs(admin, entity_type, [name])[name]
    hints = [did_you_mean(key, known) for key in keys if key not in known]
    return next((hint for hint in hints if hint), "")


def _entry(entry: ConfigEntry) -> Entry:
    return {
        "name": entry.name,
        "value": entry.value,
        "source": _SOURCES.get(ConfigSource(entry.source), "unknown"),
        "read_only": entry.is_read_only,
        "sensitive": entry.is_sensitive,
    }
