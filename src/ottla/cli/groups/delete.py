"""`ottla groups delete` and `delete-offsets`."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

import click

from ottla.cli.client import REQUEST_TIMEOUT_S, Cluster, client_options, one_line, wait_for
from ottla.cli.errors import ExitCode, Failure
from ottla.cli.groups.read import (
    committed_offsets,
    described_groups,
    group_not_found,
    listed_groups,
)
from ottla.cli.name_completion import complete_group
from ottla.cli.options import json_option
from ottla.cli.selection import selection_of, topic_option, within
from ottla.cli.suggestions import did_you_mean
from ottla.cli.tables import print_json
from ottla.kernel.errors import ErrorCode

_yes_option = click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")


@click.command("delete")
@click.argument("names", nargs=-1, required=True, metavar="GROUP...", shell_complete=complete_group)
@_yes_option
@json_option
@client_options
def delete(cluster: Cluster, names: tuple[str, ...], yes: bool, as_json: bool) -> int:
    """Delete groups without members, with all their offsets. On a terminal it asks first.

    With --json: {"deleted": [GROUP, ...], "failed": {GROUP: REASON}}.
    """
    unique = list(dict.fromkeys(names))
    admin = cluster.admin()
    _confirm(f"Delete {', '.join(unique)} with all offsets?", yes)
    deleted, failures = wait_for(
        admin.delete_consumer_groups(unique, request_timeout=REQUEST_TIMEOUT_S)
    )
    if failures:
        known = [group["group"] for group in listed_groups(admin)]
        for name, reason in failures.items():
            hint = "" if name in known else did_you_mean(name, known)
            failures[name] = f"{reason}; {hint}" if hint else reason
    return _report(list(deleted), failures, as_json=as_json)


@click.command("delete-offsets")
@click.argument("group", shell_complete=complete_group)
@topic_option
@_yes_option
@json_option
@client_options
def delete_group_offsets(
    cluster: Cluster, group: str, topics: tuple[str, ...], yes: bool, as_json: bool
) -> int:
    """Delete the committed offsets of a group for some topics.

    None of its members may be reading these topics. On a terminal it asks first.

    \b
    ottla groups delete-offsets billing --topic clicks
    ottla groups delete-offsets billing --topic clicks:0,1 --topic views

    With --json: {"deleted": ["TOPIC:PARTITION", ...], "failed": {"TOPIC:PARTITION": REASON}}.
    """
    from ottla.cli.groups.offset_delete import delete_offsets  # with asyncio and codecs of ours

    selection = selection_of(topics)
    if not selection:
        raise click.UsageError("say which offsets: --topic TOPIC[:P,P]")
    admin = cluster.admin()
    committed = committed_offsets(admin, [group])[group]
    if not committed:
        raise group_not_found(admin, group)
    partitions = within(selection, committed)
    for topic, numbers in selection.items():
        found = {number for name, number in partitions if name == topic}
        missing = set(numbers or ()) - found
        if missing or not found:
            what = ", ".join(f"{topic}:{number}" for number in sorted(missing)) or topic
            raise Failure(f"{group!r} has committed nothing in {what}")
    (described,) = described_groups(admin, [group])
    what = ", ".join(f"{topic}:{number}" for topic, number in partitions)
    _confirm(f"Delete the offsets of {group} in {what}?", yes)
    coordinator = described["coordinator"]
    codes = delete_offsets(cluster, coordinator["host"], coordinator["port"], group, partitions)
    failures = {
        f"{topic}:{number}": _reason(code)
        for (topic, number), code in codes.items()
        if code != ErrorCode.NONE
    }
    deleted = [f"{topic}:{number}" for (topic, number) in sorted(codes)]
    return _report([name for name in deleted if name not in failures], failures, as_json=as_json)


def _reason(code: ErrorCode) -> str:
    if code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC:
        return f"members of the group are reading the topic ({code.name})"
    return code.name


def _confirm(question: str, yes: bool) -> None:
    if sys.stdin.isatty() and not yes and not click.confirm(question, err=True):
        raise Failure("nothing was deleted")


def _report(deleted: Sequence[str], failures: Mapping[str, str], *, as_json: bool) -> int:
    if as_json:
        print_json({"deleted": list(deleted), "failed": dict(failures)})
        return ExitCode.FAILED if failures else ExitCode.OK
    for name in deleted:
        print(f"deleted {name}")
    if failures:
        raise Failure(f"could not delete {one_line(failures.items())}")
    return ExitCode.OK
