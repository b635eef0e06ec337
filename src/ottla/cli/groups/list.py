"""`ottla groups list`."""

from __future__ import annotations

import sys

import click

from ottla.cli.client import Cluster, client_options
from ottla.cli.command_line import command_line
from ottla.cli.groups.read import listed_groups, summarized_groups
from ottla.cli.options import json_option
from ottla.cli.tables import Column, or_dash, print_json, print_table

NO_GROUPS = f"No groups yet. Make one: {command_line('consume TOPIC --group NAME')}"

_COLUMNS = [
    Column("GROUP"),
    Column("STATE", rank=1),
    Column("MEMBERS", is_number=True, rank=2),
    Column("LAG", is_number=True),
    Column("TYPE", rank=3),
]


@click.command("list")
@click.option("--names", "only_names", is_flag=True, help="Names only, one per line.")
@json_option
@client_options
def list_groups(cluster: Cluster, only_names: bool, as_json: bool) -> None:
    """List consumer groups with their members and lag.

    LAG is the sum over all partitions with a committed offset: `describe` shows each.

    \b
    With --json: [{"group", "state", "type", "members", "lag"}, ...]; unknown values are null.
    """
    admin = cluster.admin()
    if only_names:
        print("".join(f"{group['group']}\n" for group in listed_groups(admin)), end="")
        return
    groups = summarized_groups(admin)
    if as_json:
        print_json(groups)
    elif groups:
        keys = ("group", "state", "members", "lag", "type")
        print_table(_COLUMNS, [[or_dash(group[key]) for key in keys] for group in groups])
    elif sys.stdout.isatty():
        print(NO_GROUPS)
