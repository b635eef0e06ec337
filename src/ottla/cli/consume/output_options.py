"""The options that say how a record looks."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import click

from ottla.cli.consume.format_string import formatter_of
from ottla.cli.consume.lines import Formatter, TextLines, json_line, printable, terminal_colours


class Output(NamedTuple):
    """As given. Lives as long as the command."""

    has_key: bool = False
    has_headers: bool = False
    has_meta: bool = False
    format_string: str | None = None
    as_json: bool = False
    pretty: bool | None = None
    """None: on a terminal."""

    def formatter(self, *, has_topic: bool) -> Formatter:
        """Raises BadParameter. `has_topic`: there are several, so that --meta names it."""
        is_terminal = sys.stdout.isatty()
        if self.format_string is not None:
            return formatter_of(self.format_string, printable if is_terminal else bytes)
        if self.as_json:
            return json_line
        return TextLines(
            has_key=self.has_key,
            has_headers=self.has_headers,
            has_meta=self.has_meta,
            has_topic=has_topic,
            is_terminal=is_terminal,
            is_pretty=is_terminal if self.pretty is None else self.pretty,
            colours=terminal_colours(),
        ).line

    def check(self) -> None:
        """Raises UsageError."""
        is_text = self.has_key or self.has_headers or self.has_meta or bool(self.pretty)
        if sum((self.format_string is not None, self.as_json, is_text)) > 1:
            raise click.UsageError(
                "--format and --json say by themselves what is shown: leave out the other one, "
                "--keys, --headers, --meta and --pretty"
            )


_OPTIONS = (
    click.option("--keys", "has_key", is_flag=True, help="Show the key and a tab first."),
    click.option(
        "--headers", "has_headers", is_flag=True, help="Show the headers and a tab first."
    ),
    click.option(
        "--meta", "has_meta", is_flag=True, help="Show time, partition, offset and a tab first."
    ),
    click.option(
        "-f", "--format", "format_string", metavar="FORMAT", help="kcat's letters; see above."
    ),
    click.option("--json", "as_json", is_flag=True, help="One JSON object per line; see above."),
    click.option(
        "--pretty/--no-pretty",
        default=None,
        help="Indent and colour values that are JSON. [default: on a terminal]",
    ),
)


def output_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds them, and hands the command an `output`."""

    @functools.wraps(command)
    def with_output(*args: Any, **kwargs: Any) -> Any:
        output = Output(**{name: kwargs.pop(name) for name in Output._fields})
        output.check()
        return command(*args, output=output, **kwargs)

    for option in reversed(_OPTIONS):
        with_output = option(with_output)
    return with_output
