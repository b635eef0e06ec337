"""One of several brokers: a child process, over all its starts."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Sequence

_READY = re.compile(rb"ready: broker \d+ on (.+?), data in ")
_RESTART_S_MIN = 1.0
_RESTART_S_MAX = 30.0
_HEALTHY_S = 60.0
"""A broker that has run for so long is started again at once, or nearly so."""


LOG_BYTES_MAX = 16 << 20
"""Of a broker's log, and of the part before it, which is kept beside it."""


class SupervisedBroker:
    """Owned by the supervisor. Its process ends with that, even if the supervisor is killed
    (`tied_broker`), and is in a session of its own, so that Ctrl-C reaches the supervisor only."""

    def __init__(self, broker_id: int, command: Sequence[str], log_path: str) -> None:
        self.id = broker_id
        self.log_path = log_path
        self.addresses = ""
        """Where it listens; empty until it is ready."""
        self.was_ready = False
        """At any of its starts."""
        self.restart_at_s: float | None = None
        """When it is started again; None while it runs, or stays down."""
        self._command = list(command)
        self._process: subprocess.Popen[bytes] | None = None
        self._said = b""
        self._log_begin = 0
        self._started_s = 0.0
        self._restart_s = _RESTART_S_MIN

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None

    def start(self, now_s: float) -> int:
        """Returns the descriptor to call `hear` for."""
        assert self._process is None, f"broker {self.id} runs already"
        self.restart_at_s, self.addresses, self._said = None, "", b""
        self._started_s = now_s
        with open(self.log_path, "ab") as log:
            self._log_begin = log.tell()
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
                bufsize=0,
            )
        assert self._process.stdout is not None, "a pipe was asked for"
        os.set_blocking(self._process.stdout.fileno(), False)
        return self._process.stdout.fileno()

    def hear(self) -> str | None:
        """Its line, when it has become ready. Raises EOFError when it says nothing any more."""
        assert self._process is not None, "it was started"
        assert self._process.stdout is not None, "a pipe was asked for"
        content = self._process.stdout.read(4096)
        if content == b"":
            raise EOFError
        self._said += content or b""
        line, newline, rest = self._said.partition(b"\n")
        ready = _READY.search(line) if newline else None
        if ready is None or self.addresses:
            return None
        self._said = rest
        self.addresses = ready[1].decode().replace(", ", ",")
        self.was_ready = True
        self._keep_port()
        return line.decode()

    def _keep_port(self) -> None:
        """The one that the system has picked, for its next starts: clients know it by now."""
        if "--listen" in self._command:
            at = self._command.index("--listen") + 1
            host, _, port = self._command[at].rpartition(":")
            if port == "0":
                self._command[at] = f"{host}:{self.addresses.rpartition(':')[2]}"

    def exit_code(self) -> int | None:
        """None while it runs, or when it was taken notice of."""
        return None if self._process is None else self._process.poll()

    def close(self) -> None:
        """Of one that has ended."""
        process, self._process = self._process, None
        assert process is not None, "it was started"
        self.addresses = ""
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()

    def restart_later(self, now_s: float) -> float:
        """In how many seconds: soon, and later and later where that does not help."""
        if now_s - self._started_s > _HEALTHY_S:
            self._restart_s = _RESTART_S_MIN
        after_s = self._restart_s
        self._restart_s = min(2 * after_s, _RESTART_S_MAX)
        self.restart_at_s = now_s + after_s
        return after_s

    def send(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self.close()

    def bound_log(self) -> None:
        """Moves what is in its log to `broker-N.log.1` when that is long. By a copy: the broker has
        the file open, and goes on at its end. Lines that come during it may be lost."""
        try:
            if os.path.getsize(self.log_path) <= LOG_BYTES_MAX:
                return
            shutil.copyfile(self.log_path, f"{self.log_path}.1")
            os.truncate(self.log_path, 0)
        except OSError:
            return  # Its disk is full, say: then it grows no more, either.
        self._log_begin = 0

    def last_words(self) -> str:
        """Of this start."""
        with open(self.log_path, errors="replace") as log:
            log.seek(self._log_begin)
            lines = [line.strip() for line in log if line.strip()]
        return lines[-1].removeprefix("ottla: ") if lines else f"see {self.log_path}"


def in_words(exit_code: int) -> str:
    """
    >>> in_words(1), in_words(-9)
    ('exit code 1', 'ended by SIGKILL')
    """
    if exit_code >= 0:
        return f"exit code {exit_code}"
    try:
        return f"ended by {signal.Signals(-exit_code).name}"
    except ValueError:
        return f"ended by signal {-exit_code}"
