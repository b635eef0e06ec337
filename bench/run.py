"""`./ottla bench`: runs the benchmarks and writes the results.

python bench/run.py [--only NAME]... [--update] [--quick] [--rounds N] [--no-kafka] [--no-ottla]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from ottla.cli import interrupts
from ottla.cli.early_exit import exit_at_once

_HERE = Path(__file__).resolve().parent
_INTERRUPTED = 130
sys.path.insert(0, str(_HERE.parent))
if __name__ == "__main__":
    # Before the rest is imported, which takes a second.
    exit_at_once(_INTERRUPTED)
    interrupts.watch(_INTERRUPTED)

from rich.console import Console  # noqa: E402
from rich.progress import (  # noqa: E402
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

from bench import machine  # noqa: E402
from bench.apache_kafka import ApacheKafka  # noqa: E402
from bench.benchmark import Benchmark, Effort, Setting  # noqa: E402
from bench.benchmarks import ALL, ceiling  # noqa: E402
from bench.broker import BenchError, Broker  # noqa: E402
from bench.ottla_broker import Ottla  # noqa: E402
from bench.process import is_alive, tree  # noqa: E402
from bench.results import CEILING, DATA, Results  # noqa: E402
from bench.warm_up import warm_up  # noqa: E402
from tools.apache_kafka import libs, missing  # noqa: E402

_WARM_UP_S = 30.0


def parse_arguments() -> argparse.Namespace:
    names = [*(each.name for each in ALL), CEILING]
    parser = argparse.ArgumentParser(prog="ottla bench", description="Side by side with Kafka.")
    parser.add_argument("--only", action="append", choices=names, help="may be given again")
    parser.add_argument("--quick", action="store_true", help="little data, one round: for a look")
    parser.add_argument("--rounds", type=int, help="3 by default")
    parser.add_argument("--no-kafka", action="store_true", help="Ottla alone")
    parser.add_argument("--no-ottla", action="store_true", help="Apache Kafka alone")
    parser.add_argument("--folder", type=Path, help="for the data; must have 15 GB free")
    parser.add_argument(
        "--out", type=Path, help="folder for the results; bench/ by default, for a whole run only"
    )
    parser.add_argument(
        "--update",
        action="store_true",
        help="with --only: put the rows into the results that are there, by the number of the run",
    )
    arguments = parser.parse_args()
    is_partial = arguments.quick or arguments.no_kafka or arguments.no_ottla
    if arguments.update and (is_partial or not arguments.only):
        parser.error("--update is for --only, with both brokers and without --quick")
    if arguments.out is None and not is_partial and (arguments.update or not arguments.only):
        arguments.out = _HERE
    if arguments.rounds is None:
        arguments.rounds = 1 if arguments.quick else 3
    if arguments.out is not None:
        # Before the work, not after it.
        arguments.out.mkdir(parents=True, exist_ok=True)
    if not 1 <= arguments.rounds <= 100:
        parser.error("--rounds is from 1 to 100")
    return arguments


class Run:
    """One run of the command: its brokers, its progress bar, its results."""

    def __init__(self, console: Console, arguments: argparse.Namespace, folder: Path) -> None:
        self._console = console
        self._arguments = arguments
        self._setting = Setting(Effort(arguments.quick), folder)
        self._has_java = missing() is None
        self.results = Results(machine.facts(), arguments.rounds, arguments.quick)

    def _is_wanted(self, name: str) -> bool:
        return not self._arguments.only or name in self._arguments.only

    def _chosen(self) -> list[type[Benchmark]]:
        chosen = [each for each in ALL if self._is_wanted(each.name)]
        for each in chosen:
            if each.needs_java and not self._has_java:
                self._fail(each.name, missing() or "no Java")
        return [each for each in chosen if self._has_java or not each.needs_java]

    def _fail(self, what: str, why: str) -> None:
        self.results.failures[what] = " ".join(why.split())
        self._console.print(f"[red]{what}: not measured:[/red] {why}")

    def _brokers(self) -> list[Broker]:
        brokers: list[Broker] = []
        if not self._arguments.no_kafka:
            if self._has_java:
                libs()
                brokers.append(ApacheKafka(self._setting.folder))
            else:
                self._fail("Apache Kafka", missing() or "no Java")
        if not self._arguments.no_ottla:
            brokers.append(Ottla(self._setting.folder))
        return brokers

    def execute(self) -> None:
        chosen = self._chosen()
        with ExitStack() as stack, self._progress() as progress:
            if self._is_wanted(CEILING):
                task = progress.add_task(CEILING, total=1)
                self.results.ceiling = ceiling.measure(
                    self._setting, self._arguments.rounds, with_java=self._has_java
                )
                progress.advance(task)
            if not chosen:
                return
            brokers = self._brokers()
            self._start(brokers, stack, progress)
            for kind in chosen:
                task = progress.add_task(
                    kind.name, total=len(brokers) * (self._arguments.rounds + 1)
                )
                turns = [[broker] for broker in brokers] if kind.has_cluster else [brokers]
                for together in turns:
                    self._measure(kind, together, progress, task)

    @contextmanager
    def _progress(self) -> Iterator[Progress]:
        columns = (TextColumn("{task.description:16}"), BarColumn(), MofNCompleteColumn())
        with Progress(*columns, TimeElapsedColumn(), console=self._console) as progress:
            yield progress

    def _start(self, brokers: list[Broker], stack: ExitStack, progress: Progress) -> None:
        task = progress.add_task("warm-up", total=len(brokers))
        for broker in brokers:
            stack.callback(broker.stop)
            broker.start()
            seconds = self._setting.effort.seconds(_WARM_UP_S)
            warm_up(broker, seconds, with_java=self._has_java)
            progress.advance(task)

    def _measure(
        self, kind: type[Benchmark], brokers: list[Broker], progress: Progress, task: TaskID
    ) -> None:
        """Round by round, the brokers in turn. A broker that fails is left out of what remains
        of this benchmark, the other goes on."""
        with ExitStack() as stack:
            ready: list[tuple[Broker, Benchmark]] = []
            for broker in brokers:
                with self._failing(kind, broker):
                    benchmark = kind(broker, self._setting)
                    stack.enter_context(self._cleaning(kind, broker, benchmark))
                    benchmark.prepare()
                    ready.append((broker, benchmark))
                progress.advance(task)
            for _ in range(self._arguments.rounds):
                for broker, benchmark in list(ready):
                    ready.remove((broker, benchmark))
                    with self._failing(kind, broker):
                        self.results.add(broker.name, benchmark.measure())
                        ready.append((broker, benchmark))
                    progress.advance(task)
                # Whoever was second in this round is first in the next.
                ready.reverse()

    @contextmanager
    def _cleaning(
        self, kind: type[Benchmark], broker: Broker, benchmark: Benchmark
    ) -> Iterator[None]:
        try:
            yield
        finally:
            with self._failing(kind, broker):
                benchmark.clean_up()

    @contextmanager
    def _failing(self, kind: type[Benchmark], broker: Broker) -> Iterator[None]:
        """Whatever goes wrong with one broker in one benchmark is a line of the results. A broker
        that died is started again for what follows."""
        try:
            yield
        except Exception as error:
            self._fail(f"{kind.name}, {broker.name}", str(error) or repr(error))
            if not is_alive(broker.pid):
                broker.stop()
                broker.start()


def _abandon(folder: str) -> None:
    """Brokers and clients are only there to be measured: they need not end in order."""
    # Clients in this process would complain of brokers that are gone.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
    for pid in tree(os.getpid())[1:]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    shutil.rmtree(folder, ignore_errors=True)


def main() -> int:
    arguments = parse_arguments()
    # What goes to a file is not cut to the width of a terminal that is not there.
    console = Console(width=None if sys.stdout.isatty() else 160)
    with (
        tempfile.TemporaryDirectory(
            prefix="ottla-bench-", dir=arguments.folder, ignore_cleanup_errors=True
        ) as folder,
        interrupts.at_end(lambda: _abandon(folder)),
    ):
        run = Run(console, arguments, Path(folder))
        earlier = json.loads((arguments.out / DATA).read_text()) if arguments.update else None
        if earlier and (difference := run.results.difference(earlier)):
            console.print(f"[red]the results there are of another machine:[/red] {difference}")
            return 1
        try:
            run.execute()
        except BenchError as error:
            console.print(f"[red]the benchmark cannot go on:[/red] {error}")
            return 1
    if earlier:
        run.results.take_earlier(earlier, arguments.only)
    for table in run.results.tables():
        console.print(table)
    if run.results.warning:
        console.print(f"[yellow]{run.results.warning}[/yellow]")
    if arguments.out is not None:
        for path in run.results.write(arguments.out):
            console.print(f"written: {path}")
    return 1 if run.results.failures else 0


if __name__ == "__main__":
    sys.exit(main())
