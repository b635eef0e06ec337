"""`ottla bench`: the benchmarks of a checkout."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import NoReturn

import click

from ottla.cli.early_exit import SIGNALS
from ottla.cli.errors import Failure

# src/ottla/cli/bench.py of a checkout
_ROOT = Path(__file__).resolve().parents[3]


@click.command(
    "bench",
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
)
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
def command(args: tuple[str, ...]) -> NoReturn:
    """Run the benchmarks side by side with Apache Kafka. Arguments are those of bench/run.py."""
    script = _ROOT / "bench" / "run.py"
    if not script.is_file():
        raise Failure(
            "the benchmarks are not part of the installed package; run `./ottla bench` in a "
            "checkout of the source"
        )
    # In place of this process: nobody is left in between to be told when it shall end. A signal
    # waits until the other is there to take it.
    os.chdir(_ROOT)
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    os.execv(sys.executable, [sys.executable, str(script), *args])
