"""How commands end on Ctrl-C and on SIGTERM: soon, in silence, with one rule for the exit code, and
with nothing left behind. tests/pipeline has those that start Java."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import click
import psutil
import pytest

from ottla.cli.group import group
from tests.compat.test_cli import Cli
from tests.conftest import stop_all
from tests.pipeline.test_cli_pipeline_endings import COMMANDS as WITH_JAVA
from tests.support.counts import IS_FULL
from tests.support.ottla_process import OttlaProcess
from tests.support.terminal import Terminal

MOMENTS_S = (0.0, 0.01, 0.03, 0.08, 0.16, 0.3, 0.6, 1.2)[:: 1 if IS_FULL else 2]
"""After the first line of Python's that is Ottla's: while it imports, connects, and runs."""
SHORT_MOMENTS_S = (0.0, 0.01, 0.02, 0.04, 0.06, 0.1, 0.15, 0.25)[:: 1 if IS_FULL else 3]
"""For commands that end by themselves soon."""
AT_ONCE = 4
"""So many at a time: more only get slower."""
END_S = 20.0
"""A busy machine is slow. `interrupts.GRACE_S` is what makes it 3 s."""
BAD_WORDS = ("Traceback", "Error", "Exception", "Fatal", "warning")


class Place(NamedTuple):
    """A broker of its own, with something in it: of one that tests share, lists and watches show
    what is theirs."""

    bootstrap: str
    data_dir: Path

    @property
    def environment(self) -> dict[str, str]:
        return {"OTTLA_BOOTSTRAP": self.bootstrap}

    def args(self, command: str, number: int) -> list[str]:
        """{number} is the moment's: what is made or deleted must not be another's. {data} is where
        the broker has its logs, and {empty} a folder without anything."""
        names = {"number": number, "data": self.data_dir, "empty": self.data_dir.parent / "empty"}
        return command.format(**names).split()


@pytest.fixture(scope="module")
def place(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("endings")
    (folder / "empty").mkdir()
    broker = OttlaProcess(folder / "broker")
    broker.start()
    cli = Cli(broker.bootstrap, broker.data_dir)
    lines = b"".join(b"line %d\n" % number for number in range(1000))
    cli("produce", "endings", stdin=lines)
    cli("topics", "create", "endings-perf", *(f"endings-deleted-{n}" for n in range(8)))
    cli("consume", "endings", "--group", "endings-group", "--from-beginning", "--until-end")
    yield Place(broker.bootstrap, broker.data_dir)
    stop_all([broker], request.config)


@pytest.fixture
def silent_broker() -> Iterator[str]:
    """Accepts connections, and answers nothing."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def lines_after(text: str) -> list[str]:
    """What was said after Ctrl-C, besides what was on its way to the terminal: records, a frame of
    the demo's board, and a line that was written over."""
    lines = text.rpartition("^C")[2].split("\n")
    left = [line.rstrip("\r").rpartition("\r")[2] for line in lines]
    return [line for line in left if line.strip() and not line.startswith(("{", *"╭│╰"))]


def end_at(
    moment_s: float, args: list[str], environment: dict[str, str], number: signal.Signals
) -> tuple[int, str]:
    """The exit code, and all that the terminal shows."""
    with Terminal(args, environment) as terminal:
        terminal.wait_until_signals_are_taken()
        terminal.watch(moment_s)
        if number == signal.SIGINT:
            terminal.press_control_c()
        else:
            terminal.process.send_signal(number)
        exit_code = terminal.wait(END_S)
        # A `java -version` that was asked ends by itself.
        _, left = psutil.wait_procs(terminal.left(), timeout=END_S)
        assert left == [], f"left behind at {moment_s} s"
        assert terminal.has_cursor, f"no cursor at {moment_s} s"
    return exit_code, terminal.text


def check(
    args: list[list[str]],
    environment: dict[str, str],
    exit_codes: set[int],
    moments_s: tuple[float, ...],
    *,
    lines_max: int = 1,
) -> None:
    """`args` are those for each moment."""
    if "--watch" in args[0]:
        lines_max = 1000  # a table may be on its way to the terminal

    def one(index: int) -> None:
        number = signal.SIGTERM if index % 3 == 2 else signal.SIGINT
        exit_code, text = end_at(moments_s[index], args[index], environment, number)
        where = f"{number.name} at {moments_s[index]} s: {exit_code}\n{text}"
        assert exit_code in exit_codes, where
        assert not [word for word in BAD_WORDS if word in text], where
        if number == signal.SIGINT:
            assert len(lines_after(text)) <= lines_max, where

    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(one, range(len(moments_s))))


ENDLESS = [
    "consume endings",
    "consume endings --from-beginning --json",
    "consume endings --group endings-members --from-beginning --json",
    "generate activity --rate 1000 --topic endings-generated",
    "generate logs --fast --topic endings-fast",
    "generate metrics --rate 500 --to-stdout",
    "groups describe --watch --interval 0.5",
]


@pytest.mark.parametrize("command", ENDLESS)
def test_where_it_is_the_ordinary_end(command: str, place: Place) -> None:
    args = [place.args(command, number) for number in range(len(MOMENTS_S))]
    check(args, place.environment, {0}, MOMENTS_S)


CUT_SHORT = [
    "consume endings --max 100000",
    "generate activity --seconds 3600 --topic endings-generated",
    "generate activity --count 1000000000 --fast --topic endings-fast",
    "produce endings-typed",
    "produce endings-perf --key-separator : --no-create",
    "perf produce endings-perf --records 1000000000",
    "perf produce endings-perf --records 100000 --rate 100",
    "perf consume endings-perf --records 1000000000",
    "groups describe --watch --samples 100",
    "simulate --seeds 100000 --jobs 2",
    "topics delete endings",  # asks, as the next ones
    "groups delete endings-group",
    "groups delete-offsets endings-group --topic endings",
]


@pytest.mark.parametrize("command", CUT_SHORT)
def test_where_work_is_cut_short(command: str, place: Place) -> None:
    args = [place.args(command, number) for number in range(len(MOMENTS_S))]
    check(args, place.environment, {130}, MOMENTS_S)


SHORT = [
    "--help",
    "topics list",
    "topics create endings-made-{number} --partitions 3",
    "topics describe endings",
    "topics alter endings --config retention.ms=3600000",
    "topics trim endings --keep 999 --execute",
    "topics delete --yes endings-deleted-{number}",
    "configs describe broker 1",
    "configs alter topic endings --set retention.ms=3600000",
    "groups list",
    "groups describe endings-group",
    "groups reset endings-group --topic endings --to-earliest --execute",
    "transactions list",
    "transactions find-hanging --topic endings",
    "completion bash",
    "cluster",
    "elect-leaders",
    "reassign plan",
    "reassign status",
    "reassign cancel",
    "doctor",
    "dump-log --records {data}/endings-0",
    "pipeline list",
    "pipeline describe logs",
]
REFUSED = [
    "groups delete --yes nobody",
    "reassign execute {data}/meta.properties",
    "pipeline status logs --folder {empty}",
    "pipeline show logs",
    "pipeline maintain --lake {empty}",
    "transactions describe nobody",
    "transactions abort --topic endings --partition 0 --start-offset 0",
]
"""For these there is nothing to do."""


@pytest.mark.parametrize("command", [*SHORT, *REFUSED])
def test_what_may_be_done_before(command: str, place: Place) -> None:
    args = [place.args(command, number) for number in range(len(SHORT_MOMENTS_S))]
    done = 1 if command in REFUSED else 0
    check(args, place.environment, {done, 130}, SHORT_MOMENTS_S, lines_max=10_000)


@pytest.mark.parametrize("command", ["topics list", "produce t", "groups describe g"])
def test_while_a_broker_does_not_answer(command: str, silent_broker: str) -> None:
    moments_s = (0.5, 1.0)
    args = [command.split()] * len(moments_s)
    check(args, {"OTTLA_BOOTSTRAP": silent_broker}, {130}, moments_s)


def test_a_broker(tmp_path: Path) -> None:
    for index, moment_s in enumerate(MOMENTS_S):
        args = ["start", "--listen", "127.0.0.1:0", "--data-dir", str(tmp_path)]
        number = signal.SIGTERM if index % 2 else signal.SIGINT
        exit_code, text = end_at(moment_s, args, {}, number)
        where = f"{number.name} at {moment_s} s: {exit_code}\n{text}"
        assert exit_code == 0, where
        assert not [word for word in BAD_WORDS if word in text], where
        if number == signal.SIGINT:
            assert text.endswith("\n"), where
        if " ready: " in text:
            assert text.count(f"ottla: stopped; the data stay in {tmp_path}") == 1, where


def test_several_brokers(tmp_path: Path) -> None:
    for index, moment_s in enumerate((0.0, 0.1, 0.5, 4.0)):
        args = ["start", "--brokers", "3", "--listen", "127.0.0.1:0", "--data-dir", str(tmp_path)]
        number = signal.SIGTERM if index % 2 else signal.SIGINT
        exit_code, text = end_at(moment_s, args, {}, number)
        where = f"{number.name} at {moment_s} s: {exit_code}\n{text}"
        assert exit_code == 0, where
        assert not [word for word in BAD_WORDS if word in text], where
        if " ready: " in text:
            assert text.count(f"ottla: stopped; the data stay in {tmp_path}") == 1, where


def test_the_small_demo(tmp_path: Path) -> None:
    args = [["demo", "--small"]] * len(MOMENTS_S)
    check(args, {"TMPDIR": str(tmp_path)}, {0}, MOMENTS_S, lines_max=20)
    assert {path.suffix for path in tmp_path.iterdir()} <= {".html"}


def test_the_benchmarks(tmp_path: Path) -> None:
    args = ["bench", "--only", "start", "--quick", "--no-kafka", "--folder", str(tmp_path)]
    check([args] * 3, {}, {130}, (0.1, 2.0, 0.6))
    assert list(tmp_path.iterdir()) == []


def commands(command: click.Command, path: str = "") -> Iterator[str]:
    if not isinstance(command, click.Group):
        yield path
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found is not None, name
        yield from commands(found, f"{path} {name}".strip())


def test_every_command_is_tried() -> None:
    tried = ["start", "demo", "bench", *ENDLESS, *CUT_SHORT, *SHORT, *REFUSED, *WITH_JAVA]
    untried = [
        one
        for one in commands(group)
        if not any(f"{args} ".startswith(f"{one} ") for args in tried)
    ]
    assert untried == []
