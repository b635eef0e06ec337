"""`ottla pipeline`: the pipelines on Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.command_line import command_line
from ottla.cli.errors import Failure, warn
from ottla.cli.options import json_option
from ottla.cli.pipeline.options import (
    Given,
    checked_queries,
    job_argument,
    need_extra,
    settings_options,
)
from ottla.cli.pipeline.prepare import prepare
from ottla.cli.pipeline.run import replay, run
from ottla.cli.pipeline.show import show
from ottla.cli.pipeline.view import COLUMNS, input_text, row_of, status_json
from ottla.cli.suggestions import CommandGroup
from ottla.cli.tables import Column, heading, print_facts, print_json, print_table, size_text
from ottla.pipeline.jobs.registry import find_job, summaries

if TYPE_CHECKING:
    from ottla.pipeline.jobs.job import Job, Settings
    from ottla.pipeline.lake.table import LakeTable

_HOURS_A_WEEK = 168


class _InOrder(CommandGroup):
    """Commands as one needs them, not by the alphabet."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return ["list", "describe", "run", "status", "show", "replay", "maintain", "prepare"]


@click.group("pipeline", cls=_InOrder)
def command() -> None:
    """Run pipelines on Spark: topics to topics and to a lake of tables, exactly once.

    \b
    ottla generate activity --rate 1000          input, in another terminal
    ottla pipeline run activity                  reads it, until Ctrl-C
    ottla pipeline status activity               how it is doing, from anywhere
    ottla pipeline show activity                 its results

    Pipelines need pip install 'ottla[pipeline]'. docs/pipelines/README.md says more.
    """


@command.command("list")
@json_option
def list_command(as_json: bool) -> None:
    """List all pipelines."""
    if as_json:
        print_json([{"name": name, "summary": text} for name, text in summaries().items()])
    else:
        print_table((Column("NAME"), Column("WHAT IT MAKES")), list(summaries().items()))


@command.command("describe")
@job_argument
@settings_options
@json_option
def describe(given: Given, name: str, as_json: bool) -> None:
    """Say what a pipeline reads and writes, and what can be set.

    `ottla pipeline list` has the names. With the flags of a run it says what that run would do.
    """
    job = find_job(name)
    settings = given.settings(job)
    try:
        queries, problem = checked_queries(job, settings), None
    except ValueError as error:
        queries, problem = [], str(error)
    described = {
        "name": job.name,
        "summary": job.summary,
        "reads": list(settings.topics) or settings.topic_pattern,
        "bootstrap": settings.bootstrap,
        "folder": str(settings.folder),
        "lake": settings.lake,
        "queries": [
            {
                "name": query.name,
                "summary": query.summary,
                "mode": query.mode,
                "topics": [settings.output_topic(name) for name in query.topics],
                "tables": list(query.tables),
                "group": f"{settings.group_prefix}{job.name}.{query.name}",
            }
            for query in queries
        ],
        "problem": problem,
        "options": [
            {"name": one.name, "value": settings.options[one.name], "help": one.help}
            for one in job.options
        ],
    }
    if as_json:
        print_json(described)
    else:
        _print_description(job, settings, described)


def _print_description(job: Job, settings: Settings, described: dict[str, Any]) -> None:
    heading(f"{job.name}: {job.summary}")
    reads = input_text(settings) if described["reads"] else "-"
    print_facts(
        [
            ("reads", f"{reads} at {settings.bootstrap}"),
            ("state in", str(settings.folder)),
            ("lake", settings.lake),
            ("watermark", settings.watermark),
        ]
    )
    if described["problem"]:
        warn(f"it cannot run like this: {described['problem']}")
    for query in described["queries"]:
        # Below one another: names are to be copied, and a table would cut them at 80 columns.
        print()
        heading(f"{query['name']}: {query['summary']}")
        print_facts(
            [
                ("topics", ", ".join(query["topics"]) or "-"),
                ("tables", ", ".join(query["tables"]) or "-"),
                ("group", query["group"]),
            ]
        )
    if described["options"]:
        print()
        print_table(
            (Column("OPTION"), Column("VALUE"), Column("WHAT")),
            [[one["name"], one["value"] or "-", one["help"]] for one in described["options"]],
        )


@command.command("status", short_help="Show the progress of pipelines.")
@click.argument("name", metavar="[NAME]", required=False, type=click.Choice(list(summaries())))
@click.option(
    "--folder",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="The --folder of the run. [default: ./ottla-pipeline/NAME]",
)
@json_option
def status(name: str | None, folder: Path | None, as_json: bool) -> None:
    """Show the progress of a pipeline; without NAME, of all that have run here.

    ROWS counts the whole last run. ROWS/S, TIME (its duration), WATERMARK and LAG are of the last
    BATCH; the bars show the batches before it. After the end of a run, ROWS/S is its average. LAG
    counts records that were not read when the batch was planned: `ottla groups describe` shows the
    current lag. "died" means that the process was killed; `run` continues where it was.

    With --json: a list with one entry for each query.
    """
    from ottla.pipeline.run.progress import ProgressFolder
    from ottla.pipeline.run.run_lock import RunLock
    from ottla.pipeline.run.settings import DEFAULT_FOLDER, default_folder

    if folder is not None and name is None:
        raise click.UsageError("--folder needs the NAME of the pipeline")
    folders = {one: folder or default_folder(one) for one in ([name] if name else summaries())}
    found: list[dict[str, Any]] = []
    for job, where in folders.items():
        progress_folder, holder = ProgressFolder(where), RunLock(where).holder()
        read = [progress_folder.read(query) for query in progress_folder.queries()]
        queries = [one for one in read if one is not None]
        is_running = holder is not None
        found += [status_json(one, is_running=is_running) | {"process": holder} for one in queries]
        if as_json or not queries:
            continue
        heading(f"{job}: {f'process {holder} runs it' if is_running else 'not running'}")
        print_table(COLUMNS, [row_of(one, is_running=is_running) for one in queries])
        for one in queries:
            if one.error is not None:
                print(f"{one.query}: {one.error}")
    if as_json:
        print_json(found)
    elif not found:
        places = str(folders[name] if name else DEFAULT_FOLDER)
        raise Failure(
            f"nothing has run in {places}; see `{command_line('pipeline run --help')}`, "
            "or name the --folder"
        )


@command.command("maintain", short_help="Compact the tables of the lake, delete old files.")
@click.argument("tables", nargs=-1, metavar="[TABLE]...")
@click.option(
    "--lake", metavar="DIR", help="A folder or URI. [default: ./ottla-pipeline/lake]", default=None
)
@click.option(
    "--retention-hours",
    type=click.IntRange(1),
    default=_HOURS_A_WEEK,
    show_default=True,
    help="How long to keep unneeded files, for readers and running batches.",
)
@click.option(
    "--dry-run", is_flag=True, help="Change nothing; count the files to delete (--json names them)."
)
@json_option
def maintain(
    tables: tuple[str, ...], lake: str | None, retention_hours: int, dry_run: bool, as_json: bool
) -> None:
    """Compact the tables of the lake and delete files that they no longer need.

    \b
    ottla pipeline maintain
    ottla pipeline maintain logs --lake /data/lake --retention-hours 24

    Without TABLE: all of them. Pipelines can keep running. A streaming query writes many small
    files: they are merged into large ones. Files that no table refers to are deleted when they are
    older than the retention.
    """
    need_extra()
    from ottla.pipeline.lake.lake import Lake
    from ottla.pipeline.lake.schema import LakeError
    from ottla.pipeline.run.settings import DEFAULT_FOLDER

    root = Lake(lake or str((DEFAULT_FOLDER / "lake").absolute()))
    try:
        wanted = [root.table(name) for name in tables or root.names()]
        if not wanted:
            raise Failure(f"there are no tables in {root.root}; name another --lake")
        for table in wanted:
            if not table.exists():
                raise Failure(f"there is no table {table.name} in {root.root}")
        found = [_maintained(table, retention_hours, is_dry_run=dry_run) for table in wanted]
    except LakeError as error:
        raise Failure(str(error)) from error
    if as_json:
        print_json(found)
        return
    titles = ("FILES BEFORE", "AFTER", "SIZE", "DELETED" if not dry_run else "WOULD BE DELETED")
    print_table(
        (Column("TABLE"), *(Column(title, is_number=True) for title in titles)),
        [
            [
                one["table"],
                f"{one['files_before']:,}",
                f"{one['files']:,}",
                size_text(one["bytes"]),
                f"{len(one['deleted']):,}",
            ]
            for one in found
        ],
    )


def _maintained(table: LakeTable, retention_hours: int, *, is_dry_run: bool) -> dict[str, Any]:
    from ottla.pipeline.lake.maintenance import compact, vacuum

    before = len(table.delta().file_uris())
    if not is_dry_run:
        compact(table)
    deleted = vacuum(table, retention_hours=retention_hours, is_dry_run=is_dry_run)
    files = table.delta().get_add_actions(flatten=True)["size_bytes"].to_pylist()
    return {
        "table": table.name,
        "files_before": before,
        "files": len(files),
        "bytes": sum(files),
        "deleted": deleted,
    }


command.add_command(run)
command.add_command(show)
command.add_command(replay)
command.add_command(prepare)
