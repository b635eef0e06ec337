"""`ottla reassign`: move partitions to other brokers."""

from __future__ import annotations

import click

from ottla.cli.reassign.cancel import cancel
from ottla.cli.reassign.execute import execute
from ottla.cli.reassign.plan import plan
from ottla.cli.reassign.status import status
from ottla.cli.suggestions import CommandGroup


@click.group("reassign", cls=CommandGroup, commands=[plan, execute, status, cancel])
def command() -> None:
    """Plan, execute, watch and cancel moves of partitions to other brokers."""
