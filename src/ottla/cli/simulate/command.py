"""`ottla simulate`: whole clusters from seeds, under faults, and what came of them."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from threading import Event

import click

from ottla.cli.errors import ExitCode, Failure, warn
from ottla.cli.interrupts import at_end, stoppable
from ottla.cli.options import json_option
from ottla.cli.simulate.job import Job, Result
from ottla.cli.simulate.page import page_of
from ottla.cli.simulate.pool import Pool
from ottla.cli.simulate.progress import Progress, shown
from ottla.cli.simulate.replay import NO_FAULTS, faults_of
from ottla.cli.simulate.tally import COLUMNS, Tally, failure_text
from ottla.cli.tables import duration_text, print_json, print_table

_DEFAULT_SEEDS = 100
_SHRUNK_MAX = 3
"""So many of the seeds that fail are shrunk: each takes many runs, and one bug makes many fail."""
_LOOK_S = 0.25


@click.command("simulate")
@click.option(
    "--seeds",
    type=click.IntRange(1),
    help=f"How many seeds to run. [default: {_DEFAULT_SEEDS}]",
)
@click.option("--first", type=click.IntRange(0), help="The first of them. [default: 0]")
@click.option("--seed", type=click.IntRange(0), help="Run only this one.")
@click.option(
    "--faults",
    metavar="NAME,...",
    help=f"With --seed: of its faults only these, such as kill:1,pause:3, or {NO_FAULTS}.",
)
@click.option(
    "-j", "--jobs", type=click.IntRange(1), help="Processes. [default: the number of cores]"
)
@click.option("--trace", "is_traced", is_flag=True, help="With --seed: print all that happened.")
@click.option(
    "--page",
    "page_path",
    type=click.Path(dir_okay=False, path_type=Path),
    help="With --seed: write an HTML page of who did what, when.",
)
@json_option
def command(
    seeds: int | None,
    first: int | None,
    seed: int | None,
    faults: str | None,
    jobs: int | None,
    is_traced: bool,
    page_path: Path | None,
    as_json: bool,
) -> int:
    """Simulate whole clusters under faults, and check that they keep their promises.

    A seed draws brokers, clients and faults: kills, losses of power, pauses, network cuts, lost
    sessions. They run in one process on virtual time, so the same seed is the same run anywhere.
    Then all heals, and what clients saw and what logs have is checked. See docs/proof.md.

    A seed that fails is shrunk to the fewest faults that still fail, and the command that replays
    it is printed. The exit code is 1 then.

    \b
    ottla simulate --seeds 1000 --jobs 8
    ottla simulate --seed 17 --trace
    ottla simulate --seed 17 --faults kill:2,isolate:1 --page run.html

    With --json: {"seeds", "seconds", "failed": [{"seed", "problems", "faults", "hash", "replay"}],
    "exercised": {NAME: {"count", "seeds"}}}; with --seed also "hash", and with --trace "trace".
    """
    if seed is None and (faults is not None or is_traced or page_path is not None):
        raise click.UsageError("--faults, --trace and --page need one --seed")
    if seed is not None and (seeds is not None or first is not None):
        raise click.UsageError("--seed is one seed; leave out --seeds and --first")
    if seed is not None:
        is_shown = is_traced or page_path is not None
        wanted = [Job(seed, faults_of(faults), is_traced=is_shown)]
    else:
        begin = first or 0
        wanted = [Job(begin + number) for number in range(seeds or _DEFAULT_SEEDS)]
    began_s = time.monotonic()
    tally = Tally()
    with stoppable() as stop:
        last = _run(wanted, jobs or os.cpu_count() or 1, tally, stop)
    seconds = time.monotonic() - began_s
    if stop.is_set() and not as_json:
        return _cut_short(tally, len(wanted), seconds)
    only = last if seed is not None else None
    _warn_of_missing(only)
    if only is not None and page_path is not None:
        _write(page_path, only)
    if as_json:
        print_json(tally.fields(seconds) | _fields_of(only, is_traced=is_traced))
    else:
        _print(tally, seconds, only, is_traced=is_traced)
    if stop.is_set():
        return ExitCode.INTERRUPTED
    return ExitCode.FAILED if tally.failed else ExitCode.OK


def _run(jobs: Sequence[Job], child_count: int, tally: Tally, stop: Event) -> Result | None:
    """The last result that is not one of shrinking."""
    last = None
    began_s = time.monotonic()
    with ExitStack() as stack:
        pool = stack.enter_context(Pool(min(child_count, len(jobs))))
        stack.enter_context(at_end(pool.kill))
        show = stack.enter_context(shown())
        for job in jobs:
            pool.add(job)
        while not pool.is_idle and not stop.is_set():
            for result in pool.results(_LOOK_S):
                tally.add(result)
                if result.job.shrinks:
                    continue
                last = result
                is_new = result.problems and result.job.faults is None
                if is_new and len(tally.failed) <= _SHRUNK_MAX:
                    pool.add(Job(result.job.seed, shrinks=True))
            elapsed_s = time.monotonic() - began_s
            show(Progress(tally.seed_count, len(jobs), len(tally.failed), elapsed_s))
    return last


def _warn_of_missing(only: Result | None) -> None:
    """A name that is misspelt, say."""
    if only is not None and only.job.faults:
        missing = [name for name in only.job.faults if name not in only.faults]
        if missing:
            warn(f"did not take place: {', '.join(missing)}")


def _cut_short(tally: Tally, total: int, seconds: float) -> int:
    for _, failed in sorted(tally.failed.items()):
        print(failure_text(failed))
    warn(
        f"until it was stopped: {tally.seed_count:,} of {total:,} seeds in "
        f"{duration_text(round(seconds * 1000))}, {len(tally.failed):,} failed"
    )
    return ExitCode.INTERRUPTED


def _print(tally: Tally, seconds: float, only: Result | None, *, is_traced: bool) -> None:
    if only is not None and is_traced:
        for entry in only.entries:
            print(entry)
    print_table(COLUMNS, tally.rows())
    for _, failed in sorted(tally.failed.items()):
        print(failure_text(failed))
    if only is not None:
        outcome = "failed" if only.problems else "ok"
        faults = f"{len(only.faults):,} faults"
        print(f"seed {only.job.seed}: {outcome}, {faults}, trace hash {only.digest}")
        return
    rate = tally.seed_count / max(seconds, 1e-6)
    print(
        f"{tally.seed_count:,} seeds in {duration_text(round(seconds * 1000))} ({rate:.1f}/s): "
        f"{f'{len(tally.failed):,} failed' if tally.failed else 'none failed'}"
    )


def _fields_of(only: Result | None, *, is_traced: bool) -> dict[str, object]:
    if only is None:
        return {}
    fields: dict[str, object] = {"hash": only.digest}
    if is_traced:
        fields["trace"] = [entry._asdict() for entry in only.entries]
    return fields


def _write(path: Path, result: Result) -> None:
    try:
        path.write_text(page_of(result), encoding="utf-8")
    except OSError as error:
        raise Failure(f"could not write {path}: {error.strerror}") from error
