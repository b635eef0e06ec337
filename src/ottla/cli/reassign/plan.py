"""`ottla reassign plan`: what would move. Nothing does."""

from __future__ import annotations

import re
import sys

import click

from ottla.cli.client import Cluster, client_options
from ottla.cli.command_line import command_line
from ottla.cli.errors import Failure
from ottla.cli.log_dirs import replicas_on_disk
from ottla.cli.options import json_option
from ottla.cli.reassign.balanced_assignment import Assignment, balanced
from ottla.cli.reassign.moves import counted, moves_of, print_moves
from ottla.cli.reassign.read import (
    ClusterState,
    check_brokers,
    connected,
    read_state,
    selected,
)
from ottla.cli.reassign.reassignment_file import encoded
from ottla.cli.selection import Selection, selection_of, topic_option
from ottla.cli.tables import print_json


@click.command("plan")
@topic_option
@click.option(
    "--brokers",
    metavar="ID,ID",
    help="The brokers that shall have the partitions. [default: all]",
)
@click.option(
    "--replication-factor",
    type=click.IntRange(1),
    metavar="N",
    help="Give each partition so many replicas. [default: as many as it has]",
)
@json_option
@client_options
def plan(
    cluster: Cluster,
    topics: tuple[str, ...],
    brokers: str | None,
    replication_factor: int | None,
    as_json: bool,
) -> None:
    """Show what would move to spread partitions over brokers, and copy as little as possible.

    \b
    ottla reassign plan                          over all brokers, a new one too
    ottla reassign plan --brokers 1,2            take all others out of use
    ottla reassign plan --topic clicks --replication-factor 3
    ottla reassign plan --json > plan.json       to execute it

    Without --topic: all partitions, also those of internal topics. Where every broker has a rack,
    replicas go to different racks. The first replica is the preferred leader.

    With --json: {"version": 1, "partitions": [{"topic", "partition", "replicas"}]}, which is also
    the file that kafka-reassign-partitions.sh takes.
    """
    selection = selection_of(topics)
    wanted_brokers = None if brokers is None else _ids_of(brokers)
    admin = cluster.admin()
    with connected(cluster) as client:
        state = read_state(admin, client)
    wanted = _wanted(state, selection, wanted_brokers, replication_factor)
    on_disk = None if as_json else replicas_on_disk(cluster, state.nodes)
    moves = moves_of(state.replicas, wanted, on_disk)
    if as_json:
        print_json(encoded({move.key: move.target for move in moves}))
    elif not state.replicas:
        print("nothing to move: the cluster has no topics")
    elif not moves:
        over = ", ".join(map(str, wanted_brokers or state.racks))
        noun = "broker" if len(wanted_brokers or state.racks) == 1 else "brokers"
        print(f"nothing to move: {counted(len(wanted), 'partition')} on {noun} {over}")
    else:
        print_moves(moves)
        if sys.stdout.isatty():
            print("save it with --json > plan.json, then")
            print(command_line("reassign execute plan.json"))


def _ids_of(text: str) -> list[int]:
    if not re.fullmatch(r"\d+(,\d+)*", text):
        raise click.BadParameter(f"{text!r} is not ID,ID", param_hint="'--brokers'")
    return sorted({int(number) for number in text.split(",")})


def _wanted(
    state: ClusterState,
    selection: Selection,
    brokers: list[int] | None,
    replication_factor: int | None,
) -> Assignment:
    keys = selected(state, selection)
    if moving := [f"{topic}:{number}" for topic, number in keys if (topic, number) in state.moving]:
        raise Failure(
            f"{', '.join(moving[:3])}{' and more' if len(moving) > 3 else ''} "
            f"{'is' if len(moving) == 1 else 'are'} being moved already; wait for that "
            f"(`{command_line('reassign status')}`), or cancel it "
            f"(`{command_line('reassign cancel')}`)"
        )
    check_brokers(state, brokers or ())
    racks = {id: rack for id, rack in state.racks.items() if brokers is None or id in brokers}
    current = {key: state.replicas[key] for key in keys}
    factor = replication_factor or max(map(len, current.values()), default=0)
    if factor > len(racks):
        raise Failure(
            f"{factor} replicas of a partition need {factor} brokers, and there "
            f"{'is' if len(racks) == 1 else 'are'} {len(racks)}; "
            "name more with --brokers, or fewer replicas with --replication-factor"
        )
    others = [replicas for key, replicas in state.replicas.items() if key not in current]
    return balanced(current, racks, replication_factor=replication_factor, others=others)
