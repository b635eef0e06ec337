"""Did you mean: the names that exist and are nearest to one that does not.

Every "there is no such ..." of the tools is made here: of commands, options, topics and groups.
"""

from __future__ import annotations

from collections.abc import Iterable

import click

from ottla.cli.command_line import command_line
from ottla.cli.errors import Failure

_COUNT_MAX = 3
_LESS_LIKE_MAX = 0.1
# Shorter words are part of too many names.
_PART_CHARS_MIN = 3


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """At most three, the likeliest first. Names are compared without case: that is how people
    remember them."""
    import difflib  # only ever needed on the way to an error

    spelt = {one.lower(): one for one in sorted(known)}
    lower = name.lower()
    close = difflib.get_close_matches(lower, spelt, _COUNT_MAX)
    likeness = {one: difflib.SequenceMatcher(None, one, lower).ratio() for one in close}
    # What is much less like it than the first was hardly meant.
    close = [one for one in close if likeness[one] >= likeness[close[0]] - _LESS_LIKE_MAX]
    if not close and len(lower) >= _PART_CHARS_MIN:
        # `shop` is not much like `eu.shop.orders.v2`, and still what was meant.
        close = [one for one in spelt if lower in one]
    return [spelt[one] for one in close[:_COUNT_MAX]]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A question to end an error with, or nothing where no name is near.

    >>> did_you_mean("clik", ["clicks", "views"])
    "did you mean 'clicks'?"
    """
    near = [repr(one) for one in nearest(name, known)]
    if not near:
        return ""
    *first, last = near
    return f"did you mean {', '.join(first)} or {last}?" if first else f"did you mean {last}?"


def no_such_topic(name: str, known: Iterable[str]) -> Failure:
    create = f"`{command_line(f'topics create {name}')}`"
    if hint := did_you_mean(name, known):
        return Failure(f"there is no topic {name!r}; {hint} Else create it with {create}")
    see_list = f"see `{command_line('topics list')}`"
    return Failure(f"there is no topic {name!r}; create it with {create} or {see_list}")


def no_such_group(name: str, known: Iterable[str]) -> Failure:
    hint = did_you_mean(name, known) or f"see `{command_line('groups list')}`"
    return Failure(f"there is no group {name!r}; {hint}")


class NoSuchCommand(click.UsageError):
    """Its text says what to do."""


class CommandGroup(click.Group):
    """A group of commands that knows what a wrong one was meant to be. click's own words for it
    came with 8.4, and none where commands are imported when they are called."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        known = self.list_commands(ctx)
        if name not in known and not name.startswith("-") and not ctx.resilient_parsing:
            raise NoSuchCommand(f"no such command {name!r}; {_or_help(name, known, ctx)}", ctx)
        return super().resolve_command(ctx, args)


def no_such_option(error: click.NoSuchOption) -> str:
    ctx = error.ctx
    assert ctx is not None, "an option is always looked for in a command"
    known = [
        name
        for param in ctx.command.get_params(ctx)
        for name in (*param.opts, *param.secondary_opts)
        if name.startswith("--")
    ]
    return f"no such option {error.option_name!r}; {_or_help(error.option_name, known, ctx)}"


def _or_help(name: str, known: Iterable[str], ctx: click.Context) -> str:
    return did_you_mean(name, known) or see_help(ctx)


def see_help(ctx: click.Context | None) -> str:
    path = "" if ctx is None else ctx.command_path.partition(" ")[2]
    return f"see `{command_line(f'{path} --help'.lstrip())}`"
