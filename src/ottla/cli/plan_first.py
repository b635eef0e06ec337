"""Commands that change what cannot be brought back show their plan first, and do it with
--execute."""

from __future__ import annotations

import click

from ottla.cli.errors import warn

execute_option = click.option(
    "--execute", is_flag=True, help="Do it. Without this, only the plan is shown."
)


def say_only_planned() -> None:
    warn("this is the plan, nothing was changed; --execute does it")
