"""How commands end on Ctrl-C and on SIGTERM: soon, in silence, with one rule for the exit code, and
with nothing left behind. tests/pipeline has those that start Spark."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from tests.compat.test_cli import Cli
from tests.conftest import stop_all
from tests.support.counts import IS_FULL
from tests.support.ottla_process import OttlaProcess
from tests.support.terminal import Terminal

MOMENTS_S = (0.0, 0.01, 0.03, 0.08, 0.16, 0.3, 0.6, 1.2)
"""After the first line of Python's that is Ottla's: while it imports, connects, and runs."""
AT_ONCE = 4
"""So many at a time: more only get slower."""
END_S = 20.0
"""A busy machine is slow. `interrupts.GRACE_S` is what makes it 3 s."""
BAD_WORDS = ("Traceback", "Error", "Exception", "Fatal", "warning")


@pytest.fixture(scope="module")
def bootstrap(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """Of a broker of its own: of one that tests share, lists and watches show what is theirs."""
    broker = OttlaProcess(tmp_path_factory.mktemp("endings"))
    broker.start()
    cli = Cli(broker.bootstrap, broker.data_dir)
    lines = b"".join(b"line %d\n" % number for number in range(1000))
    cli("produce", "endings", stdin=lines)
    cli("topics", "create", "endings-perf")
    yield broker.bootstrap
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
    args: list[str],
    environment: dict[str, str],
    exit_codes: set[int],
    *,
    lines_max: int = 1,
    moments_s: tuple[float, ...] = MOMENTS_S,
) -> None:
    def one(index: int) -> None:
        number = signal.SIGTERM if index % 3 == 2 else signal.SIGINT
        exit_code, text = end_at(moments_s[index], args, environment, number)
        where = f"{number.name} at {moments_s[index]} s: {exit_code}\n{text}"
        assert exit_code in exit_codes, where
        assert not [word for word in BAD_WORDS if word in text], where
        if number == signal.SIGINT:
            assert len(lines_after(text)) <= lines_max, where

    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(one, range(len(moments_s))))


ENDLESS = [
    ["consume", "endings"],
    ["consume", "endings", "--from-beginning", "--json"],
    ["generate", "activity", "--rate", "1000", "--topic", "endings-generated"],
    ["generate", "logs", "--fast", "--topic", "endings-fast"],
    ["generate", "metrics", "--rate", "500", "--to-stdout"],
    ["groups", "describe", "--watch", "--interval", "0.5"],
]


@pytest.mark.parametrize("args", ENDLESS, ids=" ".join)
def test_where_it_is_the_ordinary_end(args: list[str], bootstrap: str) -> None:
    check(args, {"OTTLA_BOOTSTRAP": bootstrap}, {0})


CUT_SHORT = [
    ["consume", "endings", "--max", "100000"],
    ["generate", "activity", "--seconds", "3600", "--topic", "endings-generated"],
    ["generate", "activity", "--count", "1000000000", "--fast", "--topic", "endings-fast"],
    ["produce", "endings-typed"],
    ["perf", "produce", "endings-perf", "--records", "1000000000"],
    ["perf", "produce", "endings-perf", "--records", "100000", "--rate", "100"],
    ["perf", "consume", "endings-perf", "--records", "1000000000"],
    ["groups", "describe", "--watch", "--samples", "100"],
    ["topics", "delete", "endings"],  # asks
]


@pytest.mark.parametrize("args", CUT_SHORT, ids=" ".join)
def test_where_work_is_cut_short(args: list[str], bootstrap: str) -> None:
    check(args, {"OTTLA_BOOTSTRAP": bootstrap}, {130})


SHORT = [
    ["--help"],
    ["topics", "list"],
    ["topics", "describe", "endings"],
    ["configs", "describe", "broker", "1"],
    ["groups", "list"],
    ["transactions", "list"],
    ["completion", "bash"],
    ["cluster"],
    ["doctor"],
    ["pipeline", "list"],
    ["pipeline", "describe", "logs"],
]


@pytest.mark.parametrize("args", SHORT, ids=" ".join)
def test_what_may_be_done_before(args: list[str], bootstrap: str) -> None:
    moments_s = (0.0, 0.01, 0.02, 0.04, 0.06, 0.1, 0.15, 0.25)[:: 1 if IS_FULL else 2]
    check(args, {"OTTLA_BOOTSTRAP": bootstrap}, {0, 130}, lines_max=100, moments_s=moments_s)


@pytest.mark.parametrize(
    "args", [["topics", "list"], ["produce", "t"], ["groups", "describe", "g"]], ids=" ".join
)
def test_while_a_broker_does_not_answer(args: list[str], silent_broker: str) -> None:
    moments_s = (0.5, 1.0)
    check(args, {"OTTLA_BOOTSTRAP": silent_broker}, {130}, moments_s=moments_s)


def test_a_broker(tmp_path: Path) -> None:
    args = ["start", "--listen", "127.0.0.1:0", "--data-dir"]
    for moment_s in MOMENTS_S:
        exit_code, text = end_at(moment_s, [*args, str(tmp_path)], {}, signal.SIGINT)
        where = f"at {moment_s} s: {exit_code}\n{text}"
        assert exit_code == 0, where
        assert not [word for word in BAD_WORDS if word in text], where


def test_the_small_demo(tmp_path: Path) -> None:
    check(["demo", "--small"], {"TMPDIR": str(tmp_path)}, {0}, lines_max=20)


def test_the_benchmarks(tmp_path: Path) -> None:
    args = ["bench", "--only", "start", "--quick", "--no-kafka", "--folder", str(tmp_path)]
    check(args, {}, {130}, moments_s=(0.1, 2.0, 0.6))
    assert list(tmp_path.iterdir()) == []
