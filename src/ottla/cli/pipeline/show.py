"""`ottla pipeline show`: the results of a pipeline, out of its topics."""

from __future__ import annotations

import importlib

import click

from ottla.cli.client import Cluster, client_options
from ottla.cli.command_line import command_line
from ottla.cli.errors import Failure, warn
from ottla.cli.options import json_option
from ottla.cli.pipeline.results.read import RECORDS_MAX, read_results
from ottla.cli.tables import heading, print_json
from ottla.pipeline.run.settings import DEFAULT_FOLDER

_SHOWN = ("activity", "logs", "metrics")
"""Each has a module in `results`. What a mirror makes is topics of others."""


@click.command("show", short_help="Show the results of a pipeline.")
@click.argument("name", metavar="NAME", type=click.Choice(_SHOWN))
@click.option(
    "--output-prefix",
    "prefix",
    default="",
    metavar="TEXT",
    help="The output_prefix that the pipeline was run with.",
)
@click.option(
    "--lake",
    metavar="DIR",
    help="Where the windows of metrics are. [default: ./ottla-pipeline/lake]",
)
@json_option
@client_options
def show(cluster: Cluster, name: str, prefix: str, lake: str | None, as_json: bool) -> None:
    """Show the results of a pipeline: activity, logs or metrics.

    Reads the newest records of the pipeline's output topics, and for metrics its lake if there is
    one. Needs no Spark, and no running pipeline. The lake has all results: see
    docs/pipelines/README.md.

    \b
    With --json, of activity: {"minutes", "days", "sessions", "top"}; of logs: {"services"};
      of metrics: {"alarms", "windows"}.
    """
    module = importlib.import_module(f"ottla.cli.pipeline.results.{name}")
    read = read_results(cluster, [prefix + topic for topic in module.TOPICS])
    values = {topic: read.values[prefix + topic] for topic in module.TOPICS}
    found = module.found_in(values, lake or str((DEFAULT_FOLDER / "lake").absolute()))
    if module.is_empty(found) and len(read.missing) == len(module.TOPICS):
        raise Failure(
            f"{name} has no results here: there is no topic {read.missing[0]!r}; "
            f"`{command_line(f'pipeline run {name}')}` makes it"
        )
    if as_json:
        print_json(found)
    elif module.is_empty(found):
        print(f"No results yet. Is it running? {command_line(f'pipeline status {name}')}")
    else:
        heading(name)
        module.print_found(found)
    if not read.is_whole:
        warn(f"there is more: only the newest {RECORDS_MAX:,} records of each partition are read")
