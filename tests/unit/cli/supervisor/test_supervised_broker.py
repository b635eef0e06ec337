from __future__ import annotations

import select
import signal
import sys
import time
from pathlib import Path

import pytest

from ottla.cli.supervisor import supervised_broker
from ottla.cli.supervisor.supervised_broker import SupervisedBroker, in_words

READY = "ottla 0.1.0 ready: broker 2 on h:1, g:2, data in d (0.10 s)"
SERVES = f"import sys; print({READY!r}, flush=True); sys.stdin.read()"
FAILS = "import sys; sys.exit('ottla: the port is taken')"


def broker(folder: Path, code: str) -> SupervisedBroker:
    return SupervisedBroker(2, [sys.executable, "-c", code], str(folder / "broker-2.log"))


def wait(descriptor: int) -> None:
    select.select([descriptor], [], [])


def test_it_says_when_it_is_ready_and_ends_with_its_input(tmp_path: Path) -> None:
    it = broker(tmp_path, SERVES)
    descriptor = it.start(0.0)
    assert it.hear() is None or it.was_ready
    while not it.was_ready:
        wait(descriptor)
        assert it.hear() in (None, READY)
    assert it.addresses == "h:1,g:2"
    assert it.exit_code() is None
    process = it._process
    assert process is not None
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(60) == 0
    with pytest.raises(EOFError):
        it.hear()
    assert it.exit_code() == 0
    it.close()
    assert not it.is_running
    assert it.addresses == ""


def test_a_port_that_the_system_has_picked_stays(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SERVES, "--listen", "[::1]:0"]
    it = SupervisedBroker(2, command, str(tmp_path / "broker-2.log"))
    descriptor = it.start(0.0)
    while not it.was_ready:
        wait(descriptor)
        it.hear()
    it.kill()
    assert it._command[-2:] == ["--listen", "[::1]:2"]


def test_one_that_fails_says_why_in_its_log_of_this_start(tmp_path: Path) -> None:
    it = broker(tmp_path, FAILS)
    (tmp_path / "broker-2.log").write_text("ottla: of yesterday\n")
    it.start(0.0)
    process = it._process
    assert process is not None
    assert process.wait(60) == 1
    it.close()
    assert it.last_words() == "the port is taken"
    assert not it.was_ready


def test_its_log_is_bounded_while_it_writes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervised_broker, "LOG_BYTES_MAX", 100)
    (tmp_path / "broker-2.log").write_text("ottla: of yesterday\n")
    code = "import sys; [print(line, end='', file=sys.stderr, flush=True) for line in sys.stdin]"
    it = broker(tmp_path, code)
    it.start(0.0)
    process = it._process
    assert process is not None
    assert process.stdin is not None
    written = "".join(f"line {number}\n" for number in range(100))
    for line in written.splitlines(keepends=True):
        size = len(it_log(it))
        process.stdin.write(line.encode())
        process.stdin.flush()
        while len(it_log(it)) == size:
            time.sleep(0.001)
        it.bound_log()
        assert len(it_log(it)) <= 100
    process.stdin.close()
    assert process.wait(60) == 0
    it.close()
    kept = (tmp_path / "broker-2.log.1").read_text() + it_log(it)
    assert written.endswith(kept)
    assert it.last_words() == "line 99"


def it_log(it: SupervisedBroker) -> str:
    return Path(it.log_path).read_text()


def test_one_that_dies_again_and_again_is_started_later_and_later(tmp_path: Path) -> None:
    it = broker(tmp_path, SERVES)
    assert [it.restart_later(0.0) for _ in range(7)] == [1, 2, 4, 8, 16, 30, 30]
    assert it.restart_at_s == 30.0
    it.start(100.0)
    assert it.restart_at_s is None
    it.kill()
    assert it.restart_later(161.0) == 1


def test_ends_in_words() -> None:
    assert in_words(3) == "exit code 3"
    assert in_words(-signal.SIGSEGV) == "ended by SIGSEGV"
    assert in_words(-63) == "ended by signal 63"
