"""What a signal does, in a process of its own. tests/compat/test_cli_endings.py tries it on every
command, on a terminal."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ottla.cli import interrupts
from ottla.cli.early_exit import SIGNALS

START = """
import sys, time
from ottla.cli.early_exit import exit_at_once
from ottla.cli import interrupts
exit_at_once(7)
interrupts.watch(7)
def say(text): print(text, flush=True)
"""


@contextmanager
def running(code: str, given: str = "") -> Iterator[subprocess.Popen[str]]:
    """Goes on when it has said that it is ready. Its standard input has `given`, and stays open."""
    with subprocess.Popen(
        [sys.executable, "-c", START + code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(given)
            process.stdin.flush()
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


def end_of(process: subprocess.Popen[str]) -> tuple[int, str]:
    # Not by `communicate`, which forgets what was read along with the first line.
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdin.close()
    out = process.stdout.read()
    assert process.stderr.read() == ""
    return process.wait(timeout=30), out


@pytest.mark.parametrize("number", SIGNALS)
def test_it_ends_at_once(number: signal.Signals) -> None:
    with running("say('ready'); time.sleep(60); say('not reached')") as process:
        process.send_signal(number)
        assert end_of(process) == (7, "")


def test_it_ends_at_once_while_it_waits_in_c() -> None:
    # A connection that is accepted and never answered: `list_topics` waits for ten seconds.
    code = """
import socket
from confluent_kafka.admin import AdminClient
server = socket.create_server(("127.0.0.1", 0))
admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{server.getsockname()[1]}", "log_level": 0})
say('ready')
admin.list_topics(timeout=60)
"""
    with running(code) as process:
        process.send_signal(signal.SIGINT)
        assert end_of(process) == (7, "")


@pytest.mark.parametrize("number", SIGNALS)
def test_a_stoppable_block_is_told(number: signal.Signals) -> None:
    code = """
with interrupts.stoppable() as stop:
    say('ready')
    stop.wait(60)
    say(f'told: {stop.is_set()}')
sys.exit(3)
"""
    with running(code) as process:
        process.send_signal(number)
        assert end_of(process) == (3, "told: True\n")


def test_a_second_signal_does_not_wait() -> None:
    code = """
with interrupts.stoppable(None) as stop:
    say('ready')
    stop.wait(60)
    say('told')
    time.sleep(60)
"""
    with running(code) as process:
        process.send_signal(signal.SIGINT)
        assert process.stdout is not None
        assert process.stdout.readline() == "told\n"
        process.send_signal(signal.SIGINT)
        assert end_of(process) == (7, "")


def test_a_terminal_that_is_closed_says_so_twice() -> None:
    """The kernel does, and then the shell: neither of them is in a hurry."""
    code = """
import signal
with interrupts.stoppable(None) as stop:
    say('ready')
    stop.wait(60)
    signal.raise_signal(signal.SIGHUP)
    say('the batch in hand is done')
"""
    with running(code) as process:
        process.send_signal(signal.SIGHUP)
        assert end_of(process) == (0, "the batch in hand is done\n")


def test_what_does_not_end_is_ended(tmp_path: Path) -> None:
    code = f"""
from pathlib import Path
with interrupts.stoppable(0.2), interrupts.at_end(Path({str(tmp_path / "ended")!r}).touch):
    say('ready')
    time.sleep(60)
"""
    with running(code) as process:
        process.send_signal(signal.SIGTERM)
        assert end_of(process) == (7, "")
    assert (tmp_path / "ended").exists()


def test_other_threads_say_nothing_while_it_ends() -> None:
    """py4j logs an error with a traceback when the JVM is killed under it."""
    code = """
import logging, threading
killed, logged = threading.Event(), threading.Event()
def complain():
    killed.wait()
    logging.error('the connection was reset')
    print('on standard output too', flush=True)
    logged.set()
threading.Thread(target=complain, daemon=True).start()
def kill():
    killed.set()
    assert logged.wait(30)
with interrupts.at_end(kill):
    say('ready')
    time.sleep(60)
"""
    with running(code) as process:
        process.send_signal(signal.SIGINT)
        assert end_of(process) == (7, "")


def test_what_nobody_would_see_changes_no_exit_code() -> None:
    """The grace is over: a main thread that fails meanwhile has no place to say why."""
    code = """
import os, threading
is_ending = threading.Event()
def end():
    is_ending.set()
    time.sleep(0.5)
with interrupts.stoppable(0.1), interrupts.at_end(end):
    say('ready')
    is_ending.wait()
    interrupts.claim_end()
    os._exit(3)
"""
    with running(code) as process:
        process.send_signal(signal.SIGTERM)
        assert end_of(process) == (7, "")


def test_last_words_are_not_cut_off() -> None:
    code = """
import os, signal
interrupts._CLAIMED_S = 30.0
say('ready')
interrupts.claim_end()
signal.raise_signal(signal.SIGINT)
time.sleep(0.1)
say('it failed')
interrupts.claim_end()
os._exit(3)
"""
    with running(code) as process:
        assert end_of(process) == (3, "it failed\n")


def test_last_words_that_nobody_reads_are_not_waited_for() -> None:
    code = "interrupts._CLAIMED_S = 0.1; interrupts.claim_end(); say('ready'); time.sleep(60)"
    with running(code) as process:
        process.send_signal(signal.SIGINT)
        assert end_of(process) == (7, "")


@pytest.mark.parametrize("number", SIGNALS)
def test_a_command_can_ask_whether_it_was_told(number: signal.Signals) -> None:
    code = """
assert not interrupts.is_stopping()
with interrupts.stoppable() as stop:
    say('ready')
    stop.wait(60)
say(f'told: {interrupts.is_stopping()}')
"""
    with running(code) as process:
        process.send_signal(number)
        assert end_of(process) == (0, "told: True\n")


def test_a_line_that_does_not_come_is_not_waited_for() -> None:
    code = """
with interrupts.stoppable() as stop:
    for line in interrupts.until_stopped(sys.stdin):
        say(line.strip())
say(f'told: {stop.is_set()}')
"""
    with running(code, "ready\n") as process:
        process.send_signal(signal.SIGINT)
        assert process.stdout is not None
        assert process.stdout.readline() == "told: True\n"
        assert end_of(process) == (0, "")


def test_a_line_that_was_read_is_not_lost() -> None:
    # In C a signal waits for the next step of the interpreter: that has the line already.
    code = """
import ctypes, signal
lines = map(ctypes.CDLL(None)['raise'], [signal.SIGINT, signal.SIGINT])
say('ready')
with interrupts.stoppable() as stop:
    for line in interrupts.until_stopped(lines):
        say(f'line {line}')
say(f'told: {stop.is_set()}')
"""
    with running(code) as process:
        assert end_of(process) == (0, "line 0\ntold: True\n")


def test_a_handler_of_a_library_is_replaced() -> None:
    code = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
interrupts.take_over()
with interrupts.stoppable() as stop:
    say('ready')
    stop.wait(60)
    say('told')
"""
    with running(code) as process:
        process.send_signal(signal.SIGINT)
        assert end_of(process) == (0, "told\n")


@pytest.mark.parametrize("lock", ["interrupts._watcher._lock", "stop._cond"])
def test_a_signal_may_come_while_the_main_thread_has_a_lock_of_the_watcher(lock: str) -> None:
    """As it has for a moment whenever it waits for the event, or enters or leaves a block."""
    code = f"""
import signal
with interrupts.stoppable() as stop:
    say('ready')
    with {lock}:
        signal.raise_signal(signal.SIGTERM)
    stop.wait(60)
    say(f'told: {{stop.is_set()}}')
"""
    with running(code) as process:
        assert end_of(process) == (0, "told: True\n")


def test_what_shall_go_on_goes_on() -> None:
    code = "say('ready'); sys.stdin.read(); say('done')"
    command = ["sh", "-c", 'trap "" INT HUP; exec "$@"', "sh", sys.executable, "-c", START + code]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGHUP)
        assert end_of(process) == (0, "done\n")


def test_nobody_is_told_where_no_thread_watches() -> None:
    interrupts.claim_end()
    with interrupts.stoppable() as stop, interrupts.at_end(lambda: None):
        assert isinstance(stop, threading.Event)
        assert not stop.is_set()
        assert not interrupts.is_stopping()
        assert list(interrupts.until_stopped("ab")) == ["a", "b"]
