"""`ottla consume` as a user runs it: in groups, of several topics, filtered, and like kcat."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.compat.test_cli import Cli, cli
from tests.support.need import need_kcat

__all__ = ["cli"]

_TIMEOUT_S = 60


class Running:
    """`ottla consume ...` that goes on, with the lines that it has written so far."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._changed = threading.Condition()
        self.out: list[str] = []
        self.err: list[str] = []
        for stream, lines in ((process.stdout, self.out), (process.stderr, self.err)):
            assert stream is not None
            threading.Thread(target=self._follow, args=(stream, lines), daemon=True).start()

    def wait_for_out(self, *lines: str) -> None:
        self._wait(lambda: set(lines) <= set(self.out))

    def wait_for_err(self, text: str, count: int = 1) -> None:
        self._wait(lambda: sum(text in line for line in self.err) >= count)

    def interrupt(self) -> int:
        self._process.send_signal(signal.SIGINT)
        return self._process.wait(_TIMEOUT_S)

    def _follow(self, stream: Iterator[bytes], lines: list[str]) -> None:
        for line in stream:
            with self._changed:
                lines.append(line.decode().rstrip("\n"))
                self._changed.notify_all()

    def _wait(self, is_there: object) -> None:
        assert callable(is_there)
        with self._changed:
            assert self._changed.wait_for(is_there, _TIMEOUT_S), (self.out, self.err)


@contextmanager
def running(cli: Cli, *args: str) -> Iterator[Running]:
    with cli.start("consume", *args) as process:
        try:
            yield Running(process)
        finally:
            process.kill()


def lag_of(cli: Cli, group: str) -> int | None:
    (described,) = cli.json("groups", "describe", group)
    return None if described["lag"] is None else int(described["lag"])


def test_a_group_goes_on_where_it_left_off(cli: Cli, topic: str) -> None:
    group = f"group-{topic}"
    cli("topics", "create", topic, "-p", "2")
    for partition in ("0", "1"):
        cli("produce", topic, "-p", partition, stdin=b"a\nb\nc\n")

    first = cli("consume", topic, "-g", group, "-b", "-n", "4")
    assert len(first.stdout.split()) == 4
    assert first.stderr.decode() == f"ottla: group {group}: assigned {topic}:0-1\n"
    assert lag_of(cli, group) == 2

    rest = cli.out("consume", topic, "-g", group, "-e")
    assert sorted(first.stdout.decode().split() + rest.split()) == list("aabbcc")
    assert lag_of(cli, group) == 0
    assert cli.out("consume", topic, "-g", group, "-e") == ""


def test_a_group_that_begins_at_the_end_remembers_it(cli: Cli, topic: str) -> None:
    group = f"group-{topic}"
    cli("topics", "create", topic)
    cli("produce", topic, stdin=b"old\n")

    assert cli.out("consume", topic, "-g", group, "-e") == ""
    cli("produce", topic, stdin=b"new\n")
    assert cli.out("consume", topic, "-g", group, "-e") == "new\n"


def test_members_share_partitions_and_tell_of_it(cli: Cli, topic: str) -> None:
    group = f"group-{topic}"
    cli("topics", "create", topic, "-p", "2")
    with running(cli, topic, "-g", group, "-b") as one:
        one.wait_for_err(f"group {group}: assigned {topic}:0-1")
        cli("produce", topic, "-p", "0", stdin=b"a\n")
        one.wait_for_out("a")
        with running(cli, topic, "-g", group, "-b") as two:
            two.wait_for_err("assigned")
            one.wait_for_err(f"revoked {topic}:0-1")
            one.wait_for_err("assigned", 2)
            cli("produce", topic, "-p", "0", stdin=b"b\n")
            cli("produce", topic, "-p", "1", stdin=b"c\n")
            second = {line[-1]: line for line in (one.err[-1], two.err[-1])}
            assert second.keys() == {"0", "1"}, "each has one partition"
            zero, another = (one, two) if second["0"] == one.err[-1] else (two, one)
            zero.wait_for_out("b")
            another.wait_for_out("c")
            assert two.interrupt() == 0
        one.wait_for_err(f"assigned {topic}:0-1", 2)
        assert one.interrupt() == 0
        # What one member had shown was committed before the other got it.
        assert sorted(one.out + two.out) == ["a", "b", "c"]
    assert lag_of(cli, group) == 0


def test_several_topics_and_those_that_match_later(cli: Cli, topic: str) -> None:
    names = [f"{topic}-{name}" for name in ("logs-a", "logs-b", "clicks", "views")]
    cli("topics", "create", *names)
    for name in names:
        cli("produce", name, stdin=name.encode() + b"\n")

    chosen = (names[2], f"^{topic}-logs-", "-b")
    with running(cli, *chosen) as alone, running(cli, *chosen, "-g", topic) as member:
        for reading in (alone, member):
            reading.wait_for_out(*names[:3])
        cli("produce", f"{topic}-logs-late", stdin=b"late\n")
        for reading in (alone, member):
            reading.wait_for_out("late")
            assert reading.interrupt() == 0
            assert sorted(reading.out) == sorted([*names[:3], "late"])


def test_an_expression_leaves_out_what_is_internal(cli: Cli, topic: str) -> None:
    cli("topics", "create", topic)
    cli("produce", topic, stdin=b"a\n")
    cli("consume", topic, "-g", f"group-{topic}", "-e")  # so that there is __consumer_offsets
    read = ("consume", f"^(__|{topic})", "-b", "-e", "--format", r"%t\n")

    assert cli.out(*read) == f"{topic}\n"
    assert cli.out(*read, "-g", f"other-group-{topic}") == f"{topic}\n"


def test_keys_are_filtered(cli: Cli, topic: str) -> None:
    cli("topics", "create", topic, "-p", "3")
    cli("produce", topic, "-k", ":", stdin=b"a1:1\na2:2\nb1:3\na1:4\n")
    cli("produce", topic, stdin=b"without\n")
    read = ("consume", topic, "-b", "-e")

    assert sorted(cli.out(*read, "--key", "a1").split()) == ["1", "4"]
    assert sorted(cli.out(*read, "--key", "a2", "--key", "b1").split()) == ["2", "3"]
    assert sorted(cli.out(*read, "--key-regex", "^a.$").split()) == ["1", "2", "4"]
    assert cli.out(*read, "--key", "a1", "-n", "1") == "1\n"


FORMATS = [
    r"%t [%p] %o key=%k (%K) value=%s (%S) at %T with %h\n",
    r"%R%s",
    r"\t%%\\\x41\x4a\r\q\x7\n",
    "no newline; %s ü\\",
]


def test_format_is_as_kcat_has_it(cli: Cli, topic: str) -> None:
    kcat = need_kcat()
    cli("topics", "create", topic)
    records = [
        {"key": "k", "value": "v1", "headers": [{"key": "a", "value": "1"}, {"key": "b"}]},
        {"value": None, "timestamp": 5},
        {"key": "", "value": "", "headers": [{"key": "a", "value": "x,y"}]},
        {"key_base64": "/wA=", "value": "%s\\n", "timestamp": 1_700_000_000_123},
    ]
    lines = "".join(f"{json.dumps(record)}\n" for record in records)
    cli("produce", topic, "--json", stdin=lines.encode())

    for format_string in FORMATS:
        by_kcat = subprocess.run(
            [
                kcat,
                "-b",
                cli.bootstrap,
                "-Cqe",
                "-t",
                topic,
                "-o",
                "beginning",
                "-f",
                format_string,
            ],
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=True,
        )
        ours = cli("consume", topic, "-b", "-e", "--format", format_string)
        assert ours.stdout == by_kcat.stdout
        assert len(ours.stdout) > 4 * len(records)


def test_json_is_pretty_on_a_terminal_only(cli: Cli, topic: str) -> None:
    value = b'{"id":1,"tags":["a","b"],"text":"' + b"x" * 60 + b'"}'
    cli("topics", "create", topic)
    cli("produce", topic, stdin=value + b"\n")
    read = ["consume", topic, "-b", "-e"]

    assert cli(*read).stdout == value + b"\n"
    shown = on_a_terminal(cli, *read)
    assert '  \x1b[34m"id"\x1b[0m: \x1b[36m1\x1b[0m,\r\n' in shown
    assert '  \x1b[34m"tags"\x1b[0m: [\x1b[32m"a"\x1b[0m, \x1b[32m"b"\x1b[0m],\r\n' in shown
    assert value.decode() in on_a_terminal(cli, *read, "--no-pretty")


def on_a_terminal(cli: Cli, *args: str) -> str:
    """What it writes to a terminal of 80 columns, until it ends."""
    ours, theirs = pty.openpty()
    environment = {**cli.environment, "TERM": "xterm", "COLUMNS": "80"}
    environment.pop("NO_COLOR", None)
    command = [sys.executable, "-m", "ottla", *args]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, env=environment) as process:
        os.close(theirs)
        shown = b""
        try:
            while piece := os.read(ours, 65536):
                shown += piece
        except OSError:
            pass  # how Linux says that the last writer has closed it
        os.close(ours)
        assert process.wait(_TIMEOUT_S) == 0
    return shown.decode()
