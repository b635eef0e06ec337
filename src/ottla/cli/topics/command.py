"""`ottla topics`: create, list, describe, alter, trim and delete topics."""

from __future__ import annotations

import click

from ottla.cli.suggestions import CommandGroup
from ottla.cli.topics.alter import alter
from ottla.cli.topics.create import create
from ottla.cli.topics.delete import delete
from ottla.cli.topics.describe import describe
from ottla.cli.topics.list import list_topics
from ottla.cli.topics.trim import trim


@click.group(
    "topics", cls=CommandGroup, commands=[create, list_topics, describe, alter, trim, delete]
)
def command() -> None:
    """Create, list, describe, alter, trim and delete topics."""
