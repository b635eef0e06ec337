"""`ottla perf`: what it consists of."""

from __future__ import annotations

import click

from ottla.cli.perf.command import command


def test_commands() -> None:
    assert command.list_commands(click.Context(command)) == ["consume", "produce"]
