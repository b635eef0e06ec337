"""`ottla perf`: how fast this machine's clients can write to and read from a cluster."""

from __future__ import annotations

import click

from ottla.cli.perf.consume import consume
from ottla.cli.perf.produce import produce
from ottla.cli.suggestions import CommandGroup


@click.group("perf", cls=CommandGroup, commands=[produce, consume])
def command() -> None:
    """Measure producing and consuming.

    \b
    ottla perf produce --records 1000000 --size 100
    ottla perf consume
    """
