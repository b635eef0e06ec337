"""`ottla groups describe`: one group after another, or their lag over time."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import partial

import click

from ottla.cli.client import Cluster, client_options
from ottla.cli.errors import ExitCode
from ottla.cli.groups.list import NO_GROUPS
from ottla.cli.groups.read import Json, described_groups, listed_groups
from ottla.cli.name_completion import complete_group
from ottla.cli.options import json_option
from ottla.cli.short_ids import short_ids
from ottla.cli.tables import Column, heading, or_dash, print_facts, print_json, print_table
from ottla.cli.watching import watch, watch_options


@click.command("describe")
@click.argument("names", nargs=-1, metavar="[GROUP]...", shell_complete=complete_group)
@watch_options("the trend")
@json_option
@client_options
def describe(
    cluster: Cluster,
    names: tuple[str, ...],
    is_watched: bool,
    interval_s: float,
    samples: int | None,
    as_json: bool,
) -> int:
    """Show groups: state, members and their partitions, offsets and lag.

    LAG is the latest offset minus the committed one.

    \b
    With --json: [{"group", "state", "type", "assignor", "coordinator": {"id", "host", "port"},
      "lag", "members": [{"member_id", "client_id", "host", "instance_id", "partitions":
      [{"topic", "partition"}]}], "partitions": [{"topic", "partition", "committed_offset",
      "latest_offset", "lag", "member_id"}]}, ...]; unknown values are null.
    With --watch too: {"time", "groups": [the same]} on a line for each sample.
    """
    admin = cluster.admin()

    def read() -> list[Json]:
        if names:
            return described_groups(admin, names)
        listed = [group["group"] for group in listed_groups(admin)]
        return described_groups(admin, listed, must_exist=False)

    if is_watched:
        from ottla.cli.groups.watch import show

        return watch(read, partial(show, as_json=as_json), interval_s, samples)
    groups = read()
    if as_json:
        print_json(groups)
        return ExitCode.OK
    if not groups and sys.stdout.isatty():
        print(NO_GROUPS)
    for index, group in enumerate(groups):
        if index:
            print()
        _print_group(group)
    return ExitCode.OK


def _print_group(group: Json) -> None:
    members = [member["member_id"] for member in group["members"]]
    # A pipe gets whole ids: what reads it may look for them.
    names = short_ids(members) if sys.stdout.isatty() else {one: one for one in members}
    heading(group["group"])
    coordinator = group["coordinator"]
    facts = [
        ("state", group["state"]),
        ("type", group["type"]),
        ("assignor", group["assignor"] or "-"),
        ("coordinator", f"{coordinator['id']} at {coordinator['host']}:{coordinator['port']}"),
        ("lag", or_dash(group["lag"])),
    ]
    print_facts(facts)
    if group["partitions"]:
        print()
        _print_partitions(group["partitions"], names)
    if group["members"]:
        print()
        _print_members(group["members"], names)


def _print_partitions(partitions: Sequence[Json], names: Mapping[str, str]) -> None:
    columns = [
        Column("TOPIC"),
        Column("PARTITION", is_number=True),
        Column("COMMITTED", is_number=True, rank=2),
        Column("LATEST", is_number=True, rank=3),
        Column("LAG", is_number=True),
        Column("MEMBER", rank=1),
    ]
    keys = ("partition", "committed_offset", "latest_offset", "lag")
    rows = [
        [part["topic"], *(or_dash(part[key]) for key in keys), names.get(part["member_id"], "-")]
        for part in partitions
    ]
    print_table(columns, rows)


def _print_members(members: Sequence[Json], names: Mapping[str, str]) -> None:
    columns = [
        Column("MEMBER"),
        Column("CLIENT", rank=1),
        Column("HOST", rank=2),
        Column("INSTANCE", rank=3),
        Column("PARTITIONS"),
    ]
    keys = ("client_id", "host", "instance_id")
    rows = [
        [
            names[member["member_id"]],
            *(or_dash(member[key]) for key in keys),
            _assignment_text(member["partitions"]),
        ]
        for member in members
    ]
    print_table(columns, rows)


def _assignment_text(partitions: Sequence[Json]) -> str:
    """TOPIC:0,1,2, as `--topic` takes it."""
    by_topic: dict[str, list[str]] = {}
    for part in partitions:
        by_topic.setdefault(part["topic"], []).append(str(part["partition"]))
    return " ".join(f"{topic}:{','.join(numbers)}" for topic, numbers in by_topic.items()) or "-"
