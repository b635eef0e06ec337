"""`ottla cluster`: brokers, health and totals on one screen."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

import click

from ottla.cli.client import Cluster, client_options
from ottla.cli.cluster.read import Json, described_cluster, software_text
from ottla.cli.command_line import command_line
from ottla.cli.errors import ExitCode
from ottla.cli.health import NOT_PREFERRED, health_text
from ottla.cli.options import json_option
from ottla.cli.tables import (
    Column,
    drawn_table,
    facts_text,
    heading,
    or_dash,
    print_facts,
    print_json,
    print_table,
    size_text,
)
from ottla.cli.watching import now_text, watch, watch_options

if TYPE_CHECKING:
    from rich.console import RenderableType

_COLUMNS = [
    Column("BROKER", is_number=True),
    Column("ADDRESS"),
    Column("RACK", rank=4),
    Column("CONTROLLER", rank=1),
    Column("LEADS", is_number=True, rank=3),
    Column("REPLICAS", is_number=True, rank=5),
    Column("SIZE", is_number=True, rank=2),
]


@click.command("cluster")
@watch_options("how it changes")
@json_option
@client_options
def command(
    cluster: Cluster, is_watched: bool, interval_s: float, samples: int | None, as_json: bool
) -> int:
    """Show brokers, health and size of a cluster.

    SIZE is on disk, of all replicas. LEADS and REPLICAS count partitions. Brokers of Apache Kafka
    with KRaft do not say which node is the controller, and only the release of their version.

    \b
    With --json: {"cluster_id", "controller_id", "brokers": [{"id", "host", "port", "rack",
      "is_controller", "software", "version", "leads", "replicas", "size_bytes", "counters"}],
      "missing_brokers": [ID], "topics", "internal_topics", "partitions", "groups", "size_bytes",
      "problems": {PROBLEM: PARTITIONS}}; unknown values are null.
    Counters, which brokers of Ottla have, begin anew with each start: {"active_controller",
      "session", "session_expirations", "isr_shrinks", "isr_expands", "truncations",
      "elections", "unclean_elections", "follower_lag_records_max", "loop_lag_ms_max"}. A broker
      counts elections that it made as controller, changes of the ISR where it leads, and
      truncations of its own logs.
    With --watch too: the same, with "time", on a line for each sample.
    """
    admin = cluster.admin()
    if is_watched:
        read = partial(described_cluster, cluster, admin)
        return watch(read, partial(_show, as_json=as_json), interval_s, samples)
    found = described_cluster(cluster, admin)
    if as_json:
        print_json(found)
        return ExitCode.OK
    heading(_title(found))
    print_facts(_facts(found))
    print()
    print_table(_COLUMNS, _rows(found))
    if sys.stdout.isatty() and (hint := hint_for(found["problems"])):
        print(f"\n{command_line(hint)}")
    return ExitCode.OK


def hint_for(problems: Mapping[str, int]) -> str | None:
    """What to run next. Leaders go back to the preferred replicas by themselves too, within
    minutes."""
    if any(count for name, count in problems.items() if name != NOT_PREFERRED):
        return "topics describe --unhealthy --internal"
    return "elect-leaders" if problems.get(NOT_PREFERRED) else None


def _show(shown: Iterator[Json], *, as_json: bool) -> None:
    if as_json:
        for found in shown:
            print(json.dumps({"time": now_text(), **found}, ensure_ascii=False), flush=True)
    elif sys.stdout.isatty():
        from rich.console import Console
        from rich.live import Live

        console = Console()
        with Live(console=console, auto_refresh=False) as live:
            for found in shown:
                live.update(drawn(found, console.width), refresh=True)
    else:
        for found in shown:
            print(f"{now_text()}  {summary_line(found)}", flush=True)


def drawn(found: Json, width: int) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    return Group(
        Text(_title(found), style="bold"),
        Text(facts_text(_facts(found))),
        Text(),
        drawn_table(_COLUMNS, _rows(found), width),
        Text(),
        Text("Ctrl-C ends", style="dim"),
    )


def summary_line(found: Json) -> str:
    """For a log."""
    counts = {**found, "brokers": len(found["brokers"])}
    names = ("brokers", "topics", "partitions", "groups")
    totals = "  ".join(f"{or_dash(counts[name])} {name}" for name in names)
    return f"{totals}  {_size(found)}  {health_of(found)}"


def _title(found: Json) -> str:
    return f"Cluster {found['cluster_id']}"


def _facts(found: Json) -> list[tuple[str, str]]:
    internal = f", {found['internal_topics']} internal" if found["internal_topics"] else ""
    return [
        ("software", software_text(found["brokers"])),
        ("topics", f"{found['topics']:,}{internal}"),
        ("partitions", f"{found['partitions']:,}"),
        ("groups", "-" if found["groups"] is None else f"{found['groups']:,}"),
        ("size", _size(found)),
        ("health", health_of(found)),
    ]


def _size(found: Json) -> str:
    """Of a cluster, or of one of its brokers."""
    return "-" if found["size_bytes"] is None else size_text(found["size_bytes"])


def health_of(found: Json) -> str:
    """Of the partitions, and which brokers should be there and are not."""
    problems = health_text(found["problems"])
    missing = found["missing_brokers"]
    if not missing:
        return problems
    brokers = f"broker{'' if len(missing) == 1 else 's'} {', '.join(map(str, missing))}"
    gone = f"{brokers} {'is' if len(missing) == 1 else 'are'} missing"
    return gone if problems == "ok" else f"{problems}; {gone}"


def _rows(found: Json) -> list[list[str]]:
    return [
        [
            str(broker["id"]),
            f"{broker['host']}:{broker['port']}",
            or_dash(broker["rack"]),
            {True: "yes", False: "", None: "-"}[broker["is_controller"]],
            f"{broker['leads']:,}",
            f"{broker['replicas']:,}",
            _size(broker),
        ]
        for broker in found["brokers"]
    ]
