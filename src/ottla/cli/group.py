"""The `ottla` command group. A command's module is imported when the command is called, so that
`ottla topics list` does not pay for the demo."""

from __future__ import annotations

import importlib
from typing import NamedTuple

import click

from ottla import __version__
from ottla.cli.errors import ExitCode, ReaderGone, warn
from ottla.cli.suggestions import CommandGroup, NoSuchCommand, no_such_option, see_help


class _Entry(NamedTuple):
    module: str
    short_help: str


# The short helps stand here, and not only in the modules, so that `ottla --help` imports none.
_SECTIONS: dict[str, dict[str, _Entry]] = {
    "Broker": {
        "start": _Entry("start", "Start a broker."),
        "demo": _Entry("demo.command", "Start a broker with a live stream of events, to watch."),
        "zookeeper": _Entry("zookeeper.command", "Start a ZooKeeper, for laptops and tests."),
    },
    "Topics": {
        "topics": _Entry(
            "topics.command", "Create, list, describe, alter, trim and delete topics."
        ),
        "configs": _Entry("configs", "Describe and alter settings of topics, brokers and groups."),
    },
    "Cluster": {
        "cluster": _Entry("cluster.command", "Show brokers, health and size of a cluster."),
        "reassign": _Entry("reassign.command", "Move partitions to other brokers."),
        "elect-leaders": _Entry("elect_leaders", "Elect preferred leaders, or any that is alive."),
    },
    "Records": {
        "produce": _Entry("produce", "Write lines to a topic."),
        "consume": _Entry("consume.command", "Read records from topics."),
    },
    "Groups": {
        "groups": _Entry("groups.command", "List, describe, reset and delete consumer groups."),
    },
    "Transactions": {
        "transactions": _Entry(
            "transactions.command", "List, describe and abort transactions; find hanging ones."
        ),
    },
    "Pipelines": {
        "generate": _Entry("generate", "Write realistic input for a pipeline to a topic."),
        "pipeline": _Entry("pipeline.command", "Run pipelines on Spark, and watch them."),
    },
    "Insight": {
        "doctor": _Entry("doctor", "Check whether this machine can run everything."),
        "dump-log": _Entry("dump_log", "Show and check log files."),
        "perf": _Entry("perf.command", "Measure producing and consuming."),
        "simulate": _Entry("simulate.command", "Simulate whole clusters under faults, from seeds."),
        "bench": _Entry("bench", "Run the benchmarks side by side with Apache Kafka."),
    },
    "Shell": {
        "completion": _Entry("completion", "Print the completion script for a shell."),
    },
}
_ENTRIES = {name: entry for section in _SECTIONS.values() for name, entry in section.items()}


class LazyGroup(CommandGroup):
    """Lives as long as the process. Knows its commands by name, and imports one when asked."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_ENTRIES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = _ENTRIES.get(cmd_name)
        if entry is None:
            return None
        module = importlib.import_module(f"ottla.cli.{entry.module}")
        if cmd_name == "start":  # it has no click of its own; see main.py
            command = module.click_command()
        else:
            command = module.command
        assert isinstance(command, click.Command), f"{entry.module} has no command"
        return command

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise ReaderGone from error  # click would end the process with 1

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, entries in _SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name, entry.short_help) for name, entry in entries.items()])


@click.command(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, message="ottla %(version)s")
def group() -> None:
    """Ottla: a Kafka broker in Python, and the tools for it and for any other Kafka.

    \b
    ottla start                                  a broker on localhost:9092
    ottla topics create clicks --partitions 3
    echo hello | ottla produce clicks
    ottla consume clicks --from-beginning

    The tools find a broker by --bootstrap, or by OTTLA_BOOTSTRAP (default localhost:9092).

    Exit codes: 0 success, 1 failure, 2 wrong usage, 130 interrupted by Ctrl-C or SIGTERM before the
    work was done. What runs until you stop it exits with 0 then: start, demo, zookeeper, --watch,
    and consume, generate and pipeline run without a limit.
    """


def run_group(args: list[str]) -> int:
    try:
        exit_code = group.main(args, prog_name="ottla", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help() if error.ctx else error.format_message(), err=True)
        return ExitCode.USAGE
    except click.UsageError as error:
        warn(_usage_text(error))
        return ExitCode.USAGE
    except click.ClickException as error:
        warn(error.format_message())
        return error.exit_code
    except click.Abort:
        return ExitCode.INTERRUPTED
    return exit_code if isinstance(exit_code, int) else ExitCode.OK


def _usage_text(error: click.UsageError) -> str:
    if isinstance(error, click.NoSuchOption):
        return no_such_option(error)
    if isinstance(error, NoSuchCommand):
        return error.message
    text = " ".join(error.format_message().split()).rstrip(".")
    return f"{text[:1].lower()}{text[1:]}; {see_help(error.ctx)}"
