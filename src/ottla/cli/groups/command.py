"""`ottla groups`: list, describe, reset and delete consumer groups and their offsets."""

from __future__ import annotations

import click

from ottla.cli.groups.delete import delete, delete_group_offsets
from ottla.cli.groups.describe import describe
from ottla.cli.groups.list import list_groups
from ottla.cli.groups.reset import reset
from ottla.cli.suggestions import CommandGroup


@click.group(
    "groups",
    cls=CommandGroup,
    commands=[list_groups, describe, reset, delete, delete_group_offsets],
)
def command() -> None:
    """List, describe, reset and delete consumer groups."""
