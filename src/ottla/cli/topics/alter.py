"""`ottla topics alter`."""

from __future__ import annotations

import click
from confluent_kafka.admin import AlterConfigOpType, NewPartitions

from ottla.cli.client import (
    REQUEST_TIMEOUT_S,
    Cluster,
    all_must_succeed,
    client_options,
    find_topic,
)
from ottla.cli.configs import Change, alter_entity
from ottla.cli.name_completion import complete_setting, complete_topic
from ottla.cli.options import pairs
from ottla.cli.topics.options import config_option, partitions_option


@click.command("alter")
@click.argument("name", shell_complete=complete_topic)
@partitions_option("The new number of partitions. It can only grow.")
@config_option("Change a setting. May be repeated.")
@click.option(
    "--delete-config",
    "deleted",
    multiple=True,
    metavar="KEY",
    shell_complete=complete_setting,
    help="Reset a setting to its default. May be repeated.",
)
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

    With more partitions a key may go to another partition than before: its old and its new records
    are then in two.
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
        all_must_succeed(
            admin.create_partitions(
                [NewPartitions(name, partitions)], request_timeout=REQUEST_TIMEOUT_S
            ),
            "could not add partitions to",
        )
    print(f"altered {name}")
