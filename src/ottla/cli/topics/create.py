"""`ottla topics create`."""

from __future__ import annotations

import click
from confluent_kafka.admin import NewTopic

from ottla.cli.client import REQUEST_TIMEOUT_S, Cluster, client_options, one_line, wait_for
from ottla.cli.errors import Failure
from ottla.cli.options import pairs
from ottla.cli.topics.options import config_option, partitions_option

_REPLICA_COUNT = click.IntRange(1, 10_000)
"""What librdkafka takes at most."""
_BROKER_DEFAULT = -1
_TOPIC_EXISTS = "(TOPIC_ALREADY_EXISTS)"


@click.command("create")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@partitions_option("How many. [default: the broker's]")
@click.option(
    "-r",
    "--replication-factor",
    type=_REPLICA_COUNT,
    help="Copies of each partition. [default: the broker's]",
)
@config_option("A setting of the topic. May be repeated.")
@click.option("--if-not-exists", is_flag=True, help="A topic that already exists is no error.")
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
