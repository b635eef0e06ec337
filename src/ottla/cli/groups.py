"""`ottla groups`: list, describe, reset and delete consumer groups and their offsets."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

import click

from ottla.cli.client import REQUEST_TIMEOUT_S, Cluster, client_options, one_line, wait_for
from ottla.cli.errors import ExitCode, Failure, warn
from ottla.cli.groups_plan import (
    Move,
    offsets_in_file,
    selection_of,
    selection_of_all,
    within,
)
from ottla.cli.groups_read import (
    Json,
    committed_offsets,
    described_groups,
    group_not_found,
    listed_groups,
)
from ottla.cli.groups_reset import commit, existing, make_plan, refuse_active
from ottla.cli.options import duration_ms, json_option, timestamp_ms
from ottla.cli.suggestions import CommandGroup
from ottla.cli.tables import Column, heading, print_facts, print_json, print_table
from ottla.kernel.errors import ErrorCode

topic_option = click.option(
    "-t",
    "--topic",
    "topics",
    multiple=True,
    metavar="TOPIC[:P,P]",
    help="All partitions of a topic, or some. May be repeated.",
)
yes_option = click.option("-y", "--yes", is_flag=True, help="Do not ask.")


@click.group("groups", cls=CommandGroup)
def command() -> None:
    """List, describe, reset and delete consumer groups."""


@command.command("list")
@click.option("--names", "only_names", is_flag=True, help="Names only, one a line.")
@json_option
@client_options
def list_groups(cluster: Cluster, only_names: bool, as_json: bool) -> None:
    """List consumer groups.

    With --json: [{"group", "state", "type"}, ...].
    """
    groups = listed_groups(cluster.admin())
    if only_names:
        print("".join(f"{group['group']}\n" for group in groups), end="")
    elif as_json:
        print_json(groups)
    elif groups:
        columns = [Column("GROUP"), Column("STATE"), Column("TYPE")]
        print_table(columns, [[group["group"], group["state"], group["type"]] for group in groups])
    elif sys.stdout.isatty():
        print("no groups yet; a consumer with a group.id makes one")


# --- describe ----------------------------------------------------------------------------------


@command.command("describe")
@click.argument("names", nargs=-1, metavar="[GROUP]...")
@click.option("-w", "--watch", "is_watched", is_flag=True, help="Go on, and show the trend.")
@click.option(
    "--interval",
    "interval_s",
    type=click.FloatRange(0.1),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="With --watch: how often.",
)
@click.option("--samples", type=click.IntRange(1), help="With --watch: how many, then end.")
@json_option
@client_options
def describe(
    cluster: Cluster,
    names: tuple[str, ...],
    is_watched: bool,
    interval_s: float,
    samples: int | None,
    as_json: bool,
) -> None:
    """Show groups: state, members with what is assigned to them, offsets and lag.

    LAG is the latest offset less the committed one.

    \b
    With --json: [{"group", "state", "type", "assignor", "coordinator": {"id", "host", "port"},
      "lag", "members": [{"member_id", "client_id", "host", "instance_id", "partitions":
      [{"topic", "partition"}]}], "partitions": [{"topic", "partition", "committed_offset",
      "latest_offset", "lag", "member_id"}]}, ...]; what is not known is null.
    With --watch too: {"time", "groups": [the same]} on a line for each sample.
    """
    admin = cluster.admin()

    def read() -> list[Json]:
        if names:
            return described_groups(admin, names)
        listed = [group["group"] for group in listed_groups(admin)]
        return described_groups(admin, listed, must_exist=False)

    if is_watched:
        from ottla.cli.groups_watch import watch

        watch(read, interval_s, samples, as_json=as_json)
        return
    groups = read()
    if as_json:
        print_json(groups)
        return
    for index, group in enumerate(groups):
        if index:
            print()
        _print_group(group)


def _print_group(group: Json) -> None:
    heading(group["group"])
    coordinator = group["coordinator"]
    facts = [
        ("state", group["state"]),
        ("type", group["type"]),
        ("assignor", group["assignor"] or "-"),
        ("coordinator", f"{coordinator['id']} at {coordinator['host']}:{coordinator['port']}"),
        ("lag", _text(group["lag"])),
    ]
    print_facts(facts)
    if group["partitions"]:
        print()
        _print_partitions(group["partitions"])
    if group["members"]:
        print()
        _print_members(group["members"])


def _print_partitions(partitions: Sequence[Json]) -> None:
    columns = [
        Column("TOPIC"),
        Column("PARTITION", is_number=True),
        Column("COMMITTED", is_number=True),
        Column("LATEST", is_number=True),
        Column("LAG", is_number=True),
        Column("MEMBER"),
    ]
    keys = ("partition", "committed_offset", "latest_offset", "lag", "member_id")
    print_table(
        columns, [[part["topic"], *(_text(part[key]) for key in keys)] for part in partitions]
    )


def _print_members(members: Sequence[Json]) -> None:
    columns = [
        Column("MEMBER"),
        Column("CLIENT"),
        Column("HOST"),
        Column("INSTANCE"),
        Column("PARTITIONS"),
    ]
    keys = ("member_id", "client_id", "host", "instance_id")
    print_table(
        columns,
        [
            [*(_text(member[key]) for key in keys), _assignment_text(member["partitions"])]
            for member in members
        ],
    )


def _assignment_text(partitions: Sequence[Json]) -> str:
    """TOPIC:0,1,2, as `--topic` takes it."""
    by_topic: dict[str, list[str]] = {}
    for part in partitions:
        by_topic.setdefault(part["topic"], []).append(str(part["partition"]))
    return " ".join(f"{topic}:{','.join(numbers)}" for topic, numbers in by_topic.items()) or "-"


def _text(value: object) -> str:
    return "-" if value is None else str(value)


# --- reset -------------------------------------------------------------------------------------


@command.command("reset")
@click.argument("group")
@click.option("--to-earliest", is_flag=True, help="To the beginning.")
@click.option("--to-latest", is_flag=True, help="To the end: skip everything.")
@click.option("--to-offset", type=click.IntRange(0), metavar="OFFSET", help="To this one.")
@click.option(
    "--to-datetime", metavar="TIME", help="To the first record from then on; ISO 8601 or ms."
)
@click.option(
    "--by-duration", metavar="DURATION", help="To the first record since so long: P7D, 2h30m."
)
@click.option("--shift-by", type=int, metavar="N", help="So many forward, or back if negative.")
@click.option(
    "--from-file",
    type=click.File(encoding="utf-8"),
    metavar="FILE",
    help="Lines of topic,partition,offset; - for standard input.",
)
@topic_option
@click.option("--all-topics", is_flag=True, help="All in which the group has committed.")
@click.option("--execute", is_flag=True, help="Do it. Without this the plan is only shown.")
@json_option
@client_options
def reset(
    cluster: Cluster,
    group: str,
    topics: tuple[str, ...],
    all_topics: bool,
    execute: bool,
    as_json: bool,
    **targets: Any,
) -> None:
    """Change how far a group has read, while none of its members is there.

    \b
    ottla groups reset billing --topic clicks --to-earliest
    ottla groups reset billing --topic clicks:0,1 --shift-by -100 --execute
    ottla groups reset billing --all-topics --by-duration 2h30m --execute

    Offsets outside of the log become the nearest that is in it.

    \b
    With --json: {"group", "executed", "partitions": [{"topic", "partition", "committed_offset",
      "new_offset", "earliest_offset", "latest_offset", "note"}]}.
    """
    target, value = _the_one_target(targets)
    selection = selection_of(topics)
    if target == "from_file":
        value = offsets_in_file(value)
        if selection or all_topics:
            raise click.UsageError("--from-file says itself which partitions")
    elif bool(selection) == all_topics:
        raise click.UsageError("say which partitions: either --topic or --all-topics")
    admin = cluster.admin()
    refuse_active(admin, group)
    committed = committed_offsets(admin, [group])[group]
    if target == "from_file":
        selection = selection_of_all(value)
    partitions = sorted(committed) if all_topics else existing(admin, selection)
    if not partitions:
        raise Failure(f"{group!r} has committed nothing yet; name partitions by --topic")
    plan = make_plan(admin, partitions, committed, target, value)
    if not as_json:
        _print_plan(plan)
    if execute:
        commit(admin, group, plan)
    if as_json:
        moves = [move._asdict() for move in plan]
        print_json({"group": group, "executed": execute, "partitions": moves})
    elif execute:
        print(f"reset {group}")
    else:
        warn("this is the plan, nothing was changed; --execute does it")


def _the_one_target(targets: Mapping[str, Any]) -> tuple[str, Any]:
    given = [
        (name, value) for name, value in targets.items() if value is not None and value is not False
    ]
    if len(given) != 1:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in targets)
        raise click.UsageError(f"say where to, by one of {options}")
    name, value = given[0]
    if name == "to_datetime":
        return "to_time", timestamp_ms(value, "--to-datetime")
    if name == "by_duration":
        return "to_time", int(time.time() * 1000) - duration_ms(value, "--by-duration")
    return name, value


def _print_plan(plan: Sequence[Move]) -> None:
    columns = [
        Column("TOPIC"),
        Column("PARTITION", is_number=True),
        Column("COMMITTED", is_number=True),
        Column("NEW", is_number=True),
        Column("LAG", is_number=True),
        Column("NOTE"),
    ]
    rows = [
        [
            move.topic,
            str(move.partition),
            _text(move.committed_offset),
            str(move.new_offset),
            str(move.latest_offset - move.new_offset),
            move.note,
        ]
        for move in plan
    ]
    print_table(columns, rows)


# --- delete ------------------------------------------------------------------------------------


@command.command("delete")
@click.argument("names", nargs=-1, required=True, metavar="GROUP...")
@yes_option
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
    return _report(list(deleted), failures, as_json=as_json)


@command.command("delete-offsets")
@click.argument("group")
@topic_option
@yes_option
@json_option
@client_options
def delete_group_offsets(
    cluster: Cluster, group: str, topics: tuple[str, ...], yes: bool, as_json: bool
) -> int:
    """Forget how far a group has read in some topics, which none of its members may be reading.
    On a terminal it asks first.

    \b
    ottla groups delete-offsets billing --topic clicks
    ottla groups delete-offsets billing --topic clicks:0,1 --topic views

    With --json: {"deleted": ["TOPIC:PARTITION", ...], "failed": {"TOPIC:PARTITION": REASON}}.
    """
    from ottla.cli.groups_offset_delete import delete_offsets  # with asyncio and codecs of ours

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
