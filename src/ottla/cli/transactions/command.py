"""`ottla transactions`: list and describe transactions, find those that hang and abort them."""

from __future__ import annotations

import click

from ottla.cli.suggestions import CommandGroup
from ottla.cli.transactions.abort import abort
from ottla.cli.transactions.describe import describe
from ottla.cli.transactions.find_hanging import find_hanging
from ottla.cli.transactions.list import list_transactions


@click.group(
    "transactions", cls=CommandGroup, commands=[list_transactions, describe, find_hanging, abort]
)
def command() -> None:
    """List and describe transactions, find those that hang, and abort them."""
