"""Options that `ottla topics create` and `alter` share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from ottla.cli.name_completion import complete_setting

# What librdkafka takes at most.
_PARTITION_COUNT = click.IntRange(1, 100_000)

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def partitions_option(help: str) -> Decorator:
    return click.option("-p", "--partitions", type=_PARTITION_COUNT, help=help)


def config_option(help: str) -> Decorator:
    return click.option(
        "-c",
        "--config",
        "configs",
        multiple=True,
        metavar="KEY=VALUE",
        shell_complete=complete_setting,
        help=help,
    )
