"""`ottla topics delete`."""

from __future__ import annotations

import sys

import click

from ottla.cli.client import (
    REQUEST_TIMEOUT_S,
    Cluster,
    all_must_succeed,
    client_options,
    find_topic,
)
from ottla.cli.errors import Failure
from ottla.cli.name_completion import complete_topic
from ottla.kernel.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE

_WHAT_IS_LOST = {
    CONSUMER_OFFSETS: "the groups and the committed offsets of all consumers",
    TRANSACTION_STATE: "the state of all transactions",
}


@click.command("delete")
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=complete_topic)
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option("--force", is_flag=True, help="Also internal topics of the brokers.")
@client_options
def delete(cluster: Cluster, names: tuple[str, ...], yes: bool, force: bool) -> None:
    """Delete topics with all their records. On a terminal it asks first."""
    unique = list(dict.fromkeys(names))
    for name in unique:
        if name in _WHAT_IS_LOST and not force:
            raise Failure(f"{name!r} holds {_WHAT_IS_LOST[name]}; --force deletes it all the same")
    admin = cluster.admin()
    for name in unique:
        find_topic(admin, name)
    question = f"Delete {', '.join(unique)} with all records?"
    if sys.stdin.isatty() and not yes and not click.confirm(question, err=True):
        raise Failure("nothing was deleted")
    all_must_succeed(
        admin.delete_topics(unique, request_timeout=REQUEST_TIMEOUT_S), "could not delete"
    )
    for name in unique:
        print(f"deleted {name}")
