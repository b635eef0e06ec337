"""`ottla reassign execute`: shows what moves, begins it, and waits until it is done."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Event
from typing import IO, NamedTuple

import click
from confluent_kafka.admin import AdminClient

from ottla.cli.client import METADATA_TIMEOUT_S, Cluster, client_options, one_line
from ottla.cli.command_line import command_line
from ottla.cli.errors import ExitCode, Failure, warn
from ottla.cli.interrupts import stoppable
from ottla.cli.log_dirs import replicas_on_disk
from ottla.cli.offsets import Partition
from ottla.cli.options import bytes_of, json_option
from ottla.cli.reassign.balanced_assignment import Replicas
from ottla.cli.reassign.moves import Move, counted, ids_text, moves_of, print_moves
from ottla.cli.reassign.progress import copied_of, progress_of, shown
from ottla.cli.reassign.read import (
    ClusterState,
    check_assignment,
    connected,
    read_state,
    words_of,
)
from ottla.cli.reassign.reassignment_file import decoded, encoded
from ottla.cli.reassign.throttle import clear_throttles, set_throttle, throttles
from ottla.cli.tables import print_json
from ottla.client.blocking_cluster import BlockingCluster
from ottla.client.blocking_reassignments import (
    Reassignment,
    alter_reassignments,
    list_reassignments,
)
from ottla.kernel.ids import TopicPartition

_PERIOD_S = 0.5
_METADATA_LAG_S = 10.0
"""Brokers hear of the end a moment after the controller has made it."""


class _Job(NamedTuple):
    """One reassignment. Lives as long as the command."""

    cluster: Cluster
    admin: AdminClient
    client: BlockingCluster
    state: ClusterState
    moves: list[Move]


@click.command("execute")
@click.argument("file", type=click.File("r"), metavar="FILE|-")
@click.option(
    "--throttle",
    metavar="BYTES/S",
    help="Copy at most so fast to and from each broker: 10MB, 500kB, 1000000.",
)
@click.option(
    "--save-current",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Write down where the partitions are now, to move them back with.",
)
@click.option("--no-wait", is_flag=True, help="Return when the brokers have begun.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@json_option
@client_options
def execute(
    cluster: Cluster,
    file: IO[str],
    throttle: str | None,
    save_current: str | None,
    no_wait: bool,
    yes: bool,
    as_json: bool,
) -> int:
    """Move partitions as a plan says, and wait until it is done. On a terminal it asks first.

    \b
    ottla reassign plan --brokers 1,2,3 --json > plan.json
    ottla reassign execute plan.json --throttle 10MB
    kafka-reassign-partitions.sh --generate ... | ottla reassign execute -

    Partitions can be written and read while they move. Ctrl-C ends the waiting only: the brokers
    go on, `ottla reassign status` shows how far they are, and `ottla reassign cancel` stops them.
    A throttle that is too low for what producers write makes it never end. It is removed when
    nothing moves any more.

    With --json: {"done", "partitions": [{"topic", "partition", "replicas", "target"}]}.
    """
    rate_bytes_s = None if throttle is None else bytes_of(throttle, "--throttle")
    wanted = decoded(file.read(), file.name)
    admin = cluster.admin()
    with connected(cluster) as client:
        state = read_state(admin, client)
        check_assignment(state, wanted)
        on_disk = replicas_on_disk(cluster, state.nodes)
        moves = moves_of(_current(state), wanted, on_disk)
        if not moves:
            return _report(moves, is_done=True, as_json=as_json)
        if not as_json:
            print_moves(moves)
        if save_current is not None:
            _save(save_current, {move.key: move.replicas for move in moves})
        _confirm(moves, yes, file.name)
        job = _Job(cluster, admin, client, state, moves)
        _begin(job, rate_bytes_s)
        is_done = not no_wait and _wait(job)
    if not is_done and not no_wait:
        return ExitCode.INTERRUPTED
    return _report(moves, is_done=is_done, as_json=as_json)


def _current(state: ClusterState) -> dict[Partition, Replicas]:
    """What moves already is where it was: to wait for it, is to execute it once more."""
    return {**state.replicas, **{key: one.origin for key, one in state.moving.items()}}


def _save(path: str, current: Mapping[Partition, Replicas]) -> None:
    try:
        Path(path).write_text(json.dumps(encoded(current), indent=2) + "\n")
    except OSError as error:
        raise Failure(f"could not write {path}: {error.strerror}") from error


def _confirm(moves: Sequence[Move], yes: bool, name: str) -> None:
    if yes or name == "<stdin>" or not sys.stdin.isatty():
        return
    if not click.confirm(f"Move {counted(len(moves), 'partition')}?", err=True):
        raise Failure("nothing was moved")


def _begin(job: _Job, rate_bytes_s: int | None) -> None:
    if rate_bytes_s is not None:
        set_throttle(job.admin, job.moves, rate_bytes_s)
    wanted = {TopicPartition(*move.key): move.target for move in job.moves}
    refused = alter_reassignments(job.client, wanted)
    if not refused:
        return
    if len(refused) == len(wanted):
        _clear_throttles(job)
    reasons = ((f"{each.topic}:{each.partition}", words_of(why)) for each, why in refused.items())
    begun = len(wanted) - len(refused)
    others = f"; {counted(begun, 'other')} began to move" if begun else ""
    raise Failure(f"could not move {one_line(reasons)}{others}")


def _wait(job: _Job) -> bool:
    """Whether all of them are done; not if a signal came first."""
    keys = {move.key for move in job.moves}
    with stoppable() as stop, shown() as show:
        while left := _left(job, keys):
            copied = copied_of(left, replicas_on_disk(job.cluster, job.state.nodes))
            show(progress_of(len(keys), len(left), copied))
            if stop.wait(_PERIOD_S):
                break
    if left:
        warn(
            f"{counted(len(left), 'partition')} {'is' if len(left) == 1 else 'are'} still being "
            f"moved; see `{command_line('reassign status')}`, or stop with "
            f"`{command_line('reassign cancel')}`"
        )
        return False
    _check_targets(job, stop)
    _clear_throttles(job)
    return True


def _left(job: _Job, keys: set[Partition]) -> dict[Partition, Reassignment]:
    moving = list_reassignments(job.client)
    return {
        (each.topic, each.partition): one
        for each, one in moving.items()
        if (each.topic, each.partition) in keys
    }


def _check_targets(job: _Job, stop: Event) -> None:
    """Nothing moves any more, which is also so when somebody has cancelled it."""
    deadline_s = time.monotonic() + _METADATA_LAG_S
    while elsewhere := _elsewhere(job):
        if time.monotonic() > deadline_s or stop.wait(_PERIOD_S):
            raise Failure(
                f"not moved, since somebody cancelled or changed it: {', '.join(elsewhere)}"
            )


def _elsewhere(job: _Job) -> list[str]:
    topics = job.admin.list_topics(timeout=METADATA_TIMEOUT_S).topics
    found = []
    for move in job.moves:
        parts = topics[move.topic].partitions if move.topic in topics else {}
        if move.partition in parts and tuple(parts[move.partition].replicas) != move.target:
            is_on = ids_text(parts[move.partition].replicas)
            found.append(f"{move.topic}:{move.partition} is on {is_on}")
    return found


def _clear_throttles(job: _Job) -> None:
    if not list_reassignments(job.client):
        clear_throttles(job.admin, throttles(job.admin, job.state.racks, job.state.topics))


def _report(moves: Sequence[Move], *, is_done: bool, as_json: bool) -> int:
    if as_json:
        partitions = [
            {
                "topic": move.topic,
                "partition": move.partition,
                "replicas": list(move.replicas),
                "target": list(move.target),
            }
            for move in moves
        ]
        print_json({"done": is_done, "partitions": partitions})
    elif not moves:
        print("nothing to move: every partition is where it should be")
    elif is_done:
        print(f"moved {counted(len(moves), 'partition')}")
    else:
        print(f"began to move {counted(len(moves), 'partition')}")
    return ExitCode.OK
