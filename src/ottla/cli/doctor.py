"""`ottla doctor`: what this machine gives, and what would go wrong."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

import click

from ottla.cli.errors import ExitCode
from ottla.cli.machine_checks import Finding, Verdict, all_checks
from ottla.cli.options import json_option
from ottla.cli.start import DEFAULT_DATA_DIR
from ottla.cli.tables import print_json

_COLOURS = {Verdict.OK: "green", Verdict.NOTE: "yellow", Verdict.PROBLEM: "red"}


@click.command("doctor")
@click.option(
    "--data-dir",
    metavar="DIR",
    type=click.Path(path_type=Path),
    default=DEFAULT_DATA_DIR,
    help=f"The data dir of the broker to start. [default: ./{DEFAULT_DATA_DIR}]",
)
@click.option(
    "--listen",
    metavar="HOST:PORT",
    default="localhost:9092",
    show_default=True,
    help="Where that broker would listen.",
)
@json_option
def command(data_dir: Path, listen: str, as_json: bool) -> int:
    """Check whether this machine can run a broker and pipelines, and say what to fix.

    Looks at Python, packages, open files, disk, port, clock, Spark and Java. Starts and changes
    nothing. Exit code 1 if something would fail. Include its output in bug reports.
    """
    findings = list(all_checks(data_dir, *_host_and_port(listen)))
    problems = sum(one.verdict is Verdict.PROBLEM for one in findings)
    if as_json:
        print_json([one._asdict() for one in findings])
    else:
        for one in findings:
            _print_finding(one)
        print(_summary(problems))
    return ExitCode.FAILED if problems else ExitCode.OK


def _host_and_port(listen: str) -> tuple[str, int]:
    host, _, port = listen.rpartition(":")
    if not host or not (port.isascii() and port.isdigit() and int(port) < 65536):
        raise click.BadParameter(f"{listen!r} is not HOST:PORT", param_hint="'--listen'")
    return host.strip("[]"), int(port)


def _print_finding(finding: Finding) -> None:
    verdict = f"{finding.verdict:<8}"
    if sys.stdout.isatty():
        verdict = click.style(verdict, fg=_COLOURS[finding.verdict])
    click.echo(f"{verdict} {finding.name:<10}  {finding.found}")
    if finding.remedy:
        indent = " " * 21
        click.echo(
            textwrap.fill(
                f"→ {finding.remedy}", 98, initial_indent=indent, subsequent_indent=indent + "  "
            )
        )


def _summary(problems: int) -> str:
    if not problems:
        return "Nothing would fail."
    return f"{problems} {'problem' if problems == 1 else 'problems'}: see the arrows above."
