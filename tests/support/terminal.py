"""A command on a terminal of its own, and whether anything of it is left after its end."""

from __future__ import annotations

import errno
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

import psutil

_SRC = Path(__file__).resolve().parents[2] / "src"
_MARK = "OTTLA_TEST_TERMINAL"
_SIGTERM_BIT = 1 << 14
_CONTROL_C = b"\x03"
_CODES = re.compile(r"\x1b\[[?0-9;]*[a-zA-Z]")


class Terminal:
    """`ottla ARGS`, or another command, in a session of its own, whose terminal has 100 columns.
    From `with` to its end; whatever is left then of it and of what it has started is killed."""

    def __init__(
        self,
        args: Sequence[str],
        environment: Mapping[str, str] | None = None,
        *,
        command: Sequence[str] = (sys.executable, "-P", "-m", "ottla"),
    ) -> None:
        self._command = [*command, *args]
        self._mark = uuid.uuid4().hex
        self._environment = {
            **os.environ,
            "TERM": "xterm",
            "PYTHONPATH": str(_SRC),
            **(environment or {}),
            _MARK: self._mark,
        }
        self._shown = b""
        self._is_closed = False

    def __enter__(self) -> Terminal:
        self._ours, its = pty.openpty()
        fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
        self.process = subprocess.Popen(
            self._command,
            env=self._environment,
            stdin=its,
            stdout=its,
            stderr=its,
            preexec_fn=lambda: os.login_tty(os.dup(0)),
        )
        os.close(its)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for one in self.left():
            one.kill()
        self.process.kill()
        self.process.wait()
        os.close(self._ours)

    def wait_until_signals_are_taken(self) -> None:
        """Before that it is Python alone, which has a traceback for whoever interrupts it."""
        status = Path(f"/proc/{self.process.pid}/status")
        while self.process.poll() is None and status.parent.exists():
            caught = re.search(r"^SigCgt:\s*([0-9a-f]+)$", status.read_text(), re.MULTILINE)
            if caught is not None and int(caught[1], 16) & _SIGTERM_BIT:
                return
            time.sleep(0.001)

    def wait_for(self, text: str, timeout_s: float) -> None:
        deadline_s = time.monotonic() + timeout_s
        while text not in self.text:
            assert not self._is_closed, f"it ended:\n{self.text}"
            assert time.monotonic() < deadline_s, f"no {text!r} in:\n{self.text}"
            self._read(deadline_s)

    def watch(self, seconds: float) -> None:
        """Lets it run, and reads what it shows: it would wait for that."""
        deadline_s = time.monotonic() + seconds
        while not self._is_closed and time.monotonic() < deadline_s:
            self._read(deadline_s)

    def press_control_c(self) -> None:
        os.write(self._ours, _CONTROL_C)

    def wait(self, timeout_s: float) -> int:
        """The exit code."""
        deadline_s = time.monotonic() + timeout_s
        while not self._is_closed and self.process.poll() is None:
            assert time.monotonic() < deadline_s, f"it goes on:\n{self.text}"
            self._read(time.monotonic() + 0.05)
        exit_code = self.process.wait(max(0.1, deadline_s - time.monotonic()))
        while not self._is_closed and select.select([self._ours], [], [], 0)[0]:
            self._read(time.monotonic())
        return exit_code

    @property
    def text(self) -> str:
        """All that it has shown, without colours and movements."""
        return _CODES.sub("", self._shown.decode(errors="replace")).replace("\r\n", "\n")

    @property
    def has_cursor(self) -> bool:
        return self._shown.rfind(b"\x1b[?25h") >= self._shown.rfind(b"\x1b[?25l")

    def left(self) -> list[psutil.Process]:
        """Processes that it has started, and theirs, in whatever session."""
        found = []
        for one in psutil.process_iter():
            try:
                if one.pid != self.process.pid and one.environ().get(_MARK) == self._mark:
                    found.append(one)
            except psutil.Error:
                pass  # gone, a zombie, or of somebody else
        return found

    def _read(self, deadline_s: float) -> None:
        if not select.select([self._ours], [], [], max(0, deadline_s - time.monotonic()))[0]:
            return
        try:
            read = os.read(self._ours, 65536)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            read = b""
        self._is_closed = not read
        self._shown += read
