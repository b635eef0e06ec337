"""`ottla groups list`."""

from __future__ import annotations

import sys

import click

from ottla.cli.client import Cluster, client_options
from ottla.cli.groups.read import listed_groups
from ottla.cli.options import json_option
from ottla.cli.tables import Column, print_json, print_table


@click.command("list")
@click.option("--names", "only_names", is_flag=True, help="Names only, one a line.")
@json_option
@client_options
def list_groups(cluster: Cluster, only_names: bool, as_json: bool) -> None:
    """List consumer groups.

    With --json: [{"group", "state", "type"}, ...].
    """
    groups = listed_groups(cluster.admin())
    if only_names:
        print("".join(f"{group['group']}\n" for group in groups), end="")
    elif as_json:
        print_json(groups)
    elif groups:
        columns = [Column("GROUP"), Column("STATE"), Column("TYPE")]
        print_table(columns, [[group["group"], group["state"], group["type"]] for group in groups])
    elif sys.stdout.isatty():
        print("no groups yet; a consumer with a group.id makes one")
