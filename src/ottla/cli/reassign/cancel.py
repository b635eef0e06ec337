"""`ottla reassign cancel`: back to where the partitions were."""

from __future__ import annotations

import sys

import click

from ottla.cli.client import Cluster, client_options, one_line
from ottla.cli.errors import Failure
from ottla.cli.options import json_option
from ottla.cli.reassign.moves import counted
from ottla.cli.reassign.read import connected, read_state, selected, words_of
from ottla.cli.reassign.throttle import clear_throttles, throttles
from ottla.cli.selection import selection_of, topic_option
from ottla.cli.tables import print_json
from ottla.client.blocking_reassignments import alter_reassignments, list_reassignments
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import TopicPartition


@click.command("cancel")
@topic_option
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@json_option
@client_options
def cancel(cluster: Cluster, topics: tuple[str, ...], yes: bool, as_json: bool) -> None:
    """Stop moving partitions: each goes back to the replicas that it had.

    What was copied is deleted. Without --topic: all that are being moved. On a terminal it asks
    first. A throttle is removed when nothing moves any more.

    With --json: {"cancelled": [{"topic", "partition"}]}.
    """
    selection = selection_of(topics)
    admin = cluster.admin()
    with connected(cluster) as client:
        state = read_state(admin, client)
        keys = [key for key in selected(state, selection) if key in state.moving]
        question = f"Stop moving {counted(len(keys), 'partition')}?"
        if keys and not yes and sys.stdin.isatty() and not click.confirm(question, err=True):
            raise Failure("nothing was cancelled")
        refused = alter_reassignments(client, {TopicPartition(*key): None for key in keys})
        # Some may be done by now, which is no failure.
        done = {
            (each.topic, each.partition)
            for each, why in refused.items()
            if why.code == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
        }
        if reasons := [
            (f"{each.topic}:{each.partition}", words_of(why))
            for each, why in refused.items()
            if (each.topic, each.partition) not in done
        ]:
            raise Failure(f"could not cancel {one_line(reasons)}")
        if not list_reassignments(client):
            clear_throttles(admin, throttles(admin, state.racks, state.topics))
    cancelled = [key for key in keys if key not in done]
    if as_json:
        print_json({"cancelled": [{"topic": key[0], "partition": key[1]} for key in cancelled]})
    elif cancelled:
        print(f"cancelled {counted(len(cancelled), 'partition')}")
    else:
        which = "none of these partitions" if topics else "no partition"
        print(f"{which} is being moved")
