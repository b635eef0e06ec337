"""`ottla reassign status`: what moves, and how far it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from ottla.cli.client import Cluster, client_options
from ottla.cli.log_dirs import replicas_on_disk
from ottla.cli.offsets import Partition
from ottla.cli.options import json_option
from ottla.cli.reassign.moves import counted, ids_text
from ottla.cli.reassign.progress import Copied, copied_of
from ottla.cli.reassign.read import connected, read_state
from ottla.cli.reassign.throttle import Throttle, clear_throttles, rate_of, throttles
from ottla.cli.tables import Column, print_json, print_table, size_text
from ottla.client.blocking_reassignments import Reassignment

Json = dict[str, Any]

_COLUMNS = [
    Column("TOPIC"),
    Column("PARTITION", is_number=True),
    Column("FROM", rank=1),
    Column("TO"),
    Column("COPIED", is_number=True),
    Column("SIZE", is_number=True, rank=2),
]


@click.command("status")
@click.option(
    "--keep-throttle", is_flag=True, help="Leave a throttle as it is when nothing moves any more."
)
@json_option
@client_options
def status(cluster: Cluster, keep_throttle: bool, as_json: bool) -> None:
    """Show which partitions are being moved, and how far each is.

    When nothing moves any more, a throttle that was left behind is removed, as
    kafka-reassign-partitions.sh --verify does.

    \b
    With --json: {"partitions": [{"topic", "partition", "from", "to", "copied_bytes",
      "size_bytes"}], "throttle_bytes_s", "throttle_removed"}; unknown values are null.
    """
    admin = cluster.admin()
    with connected(cluster) as client:
        state = read_state(admin, client)
    copied = copied_of(state.moving, replicas_on_disk(cluster, state.nodes) if state.moving else [])
    found = throttles(admin, state.racks, state.topics)
    is_removed = bool(found) and not state.moving and not keep_throttle
    if is_removed:
        clear_throttles(admin, found)
    if as_json:
        print_json(
            {
                "partitions": _partitions(state.moving, copied),
                "throttle_bytes_s": None if is_removed else rate_of(found),
                "throttle_removed": is_removed,
            }
        )
        return
    if state.moving:
        _print_moving(state.moving, copied)
    else:
        print("no partition is being moved")
    _print_throttle(found, is_removed=is_removed)


def _partitions(
    moving: Mapping[Partition, Reassignment], copied: Mapping[Partition, Copied] | None
) -> list[Json]:
    return [
        {
            "topic": key[0],
            "partition": key[1],
            "from": list(one.origin),
            "to": list(one.target),
            "copied_bytes": None if copied is None else copied[key].copied_bytes,
            "size_bytes": None if copied is None else copied[key].size_bytes,
        }
        for key, one in sorted(moving.items())
    ]


def _print_moving(
    moving: Mapping[Partition, Reassignment], copied: Mapping[Partition, Copied] | None
) -> None:
    rows = []
    for key, one in sorted(moving.items()):
        share, size = "-", "-"
        if copied is not None:
            size_bytes = copied[key].size_bytes
            share = f"{copied[key].copied_bytes / size_bytes:.0%}" if size_bytes else "100%"
            size = size_text(size_bytes)
        rows.append([key[0], str(key[1]), ids_text(one.origin), ids_text(one.target), share, size])
    print_table(_COLUMNS, rows)
    left = ""
    if copied is not None:
        left_bytes = sum(one.size_bytes - one.copied_bytes for one in copied.values())
        left = f", {size_text(left_bytes)} left"
    print(f"\n{counted(len(moving), 'partition')} being moved{left}")


def _print_throttle(found: Sequence[Throttle], *, is_removed: bool) -> None:
    if is_removed:
        print(f"removed the throttle of {', '.join(map(str, found))}")
    elif (rate := rate_of(found)) is not None:
        print(f"the throttle is {size_text(rate)}/s for each broker")
