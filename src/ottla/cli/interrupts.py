"""Ctrl-C, SIGTERM and a terminal that is closed: how a command ends when it is told to.

No KeyboardInterrupt is raised. It would come in the middle of whatever runs: an import, a callback
of librdkafka (which makes a SystemError of it), the clean-up of a child process. Instead a thread
hears of the signal, also while the main thread waits in C:

- In a `stoppable` block it sets the event that the command looks at. The command has a few seconds
  to end in order. A second Ctrl-C or SIGTERM ends the process at once.
- Everywhere else the process ends at once.

`start` has no such thread: `early_exit` is enough until its loop takes the signals over.
"""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from threading import Event
from typing import TypeVar

from ottla.cli.early_exit import CLEAR_LINE, SIGNALS, handle_signals

GRACE_S = 2.5
"""A command that was told to stop and has not ended after this time is ended."""

_ONCE_MORE = (signal.SIGINT, signal.SIGTERM)
"""Of who does not want to wait."""
_HANDLER_S = 0.5
"""Much longer than the thread takes on a busy machine, and still short if it has to wait."""
_CLAIMED_S = 1.0
"""For the last words of the main thread."""
_STDOUT, _STDERR = 1, 2
_SHOW_CURSOR = b"\x1b[?25h"

T = TypeVar("T")


class Watcher:
    """The thread that hears of signals, from `start` to the end of the process. There is one at
    most, owned by this module."""

    def __init__(self, exit_code: int) -> None:
        self._exit_code = exit_code
        self.stop = Event()
        self._lock = threading.Lock()
        self._is_stoppable = False
        self._grace_s: float | None = None
        self._is_reading = False
        self._is_told = False
        self._at_end: list[Callable[[], object]] = []
        self._end_lock = threading.Lock()
        """Whoever ends the process takes it, and never gives it back."""
        self._is_claimed = False
        self._signals, self._wakeup = os.pipe()
        os.set_blocking(self._wakeup, False)
        self._thread = threading.Thread(target=self._watch, name="signals", daemon=True)

    def start(self) -> None:
        signal.set_wakeup_fd(self._wakeup, warn_on_full_buffer=False)
        self._thread.start()
        self.take_over()

    def take_over(self) -> None:
        handle_signals(self._on_signal)

    @contextmanager
    def stoppable(self, grace_s: float | None) -> Iterator[None]:
        with self._lock:
            self._is_stoppable, self._grace_s = True, grace_s
        try:
            yield
        finally:
            with self._lock:
                self._is_stoppable = False

    @contextmanager
    def at_end(self, action: Callable[[], object]) -> Iterator[None]:
        self._at_end.append(action)
        try:
            yield
        finally:
            self._at_end.remove(action)

    def claim_end(self) -> None:
        """The main thread may say why it ends, and end with its own exit code. Where the other
        thread has begun to end the process, this never returns: nobody would see what it says."""
        if not self._is_claimed:
            self._end_lock.acquire()
            self._is_claimed = True

    def read(self, items: Iterator[T]) -> Iterator[T]:
        read: list[T] = []
        try:
            while not self.stop.is_set():
                self._is_reading = True
                # In one step of the interpreter: a signal comes before it, or finds the item here.
                read.extend(islice(items, 1))
                self._is_reading = False
                if not read:
                    return
                yield read.pop()
        except KeyboardInterrupt:
            self.stop.wait()  # the thread is about to set it
            yield from read

    def _on_signal(self, number: int, _: object) -> None:
        """In the main thread, when it runs Python again. It gives `_watch`, which hears of the
        signal by itself, a moment to tell it to stop, or to end the process. Otherwise it would
        complain meanwhile of a child that was killed.

        A second one ends the process, with its children: that may take longer.

        No longer than that: what was interrupted may have the lock that `_watch` needs, of this
        object or of the event. That is also why it looks at the event and does not wait for it."""
        if self._is_claimed:
            return  # it ends by itself
        is_first, self._is_told = not self._is_told, True
        if not is_first and number == signal.SIGHUP:
            return
        if is_first and self._is_reading:
            raise KeyboardInterrupt
        until_s = time.monotonic() + (_HANDLER_S if is_first else GRACE_S)
        while time.monotonic() < until_s and not (is_first and self.stop.is_set()):
            time.sleep(0.005)

    def _watch(self) -> None:
        number = self._next_signal(SIGNALS)
        with self._lock:
            is_stoppable = self._is_stoppable
            if is_stoppable:
                self.stop.set()
        if is_stoppable:
            if number == signal.SIGINT and os.isatty(_STDERR):
                os.write(_STDERR, CLEAR_LINE.encode())
            until_s = None if self._grace_s is None else time.monotonic() + self._grace_s
            # A terminal that is closed says so by itself, and its shell once more.
            number = self._next_signal(_ONCE_MORE, until_s)
        self._end(number)

    def _next_signal(self, of: Collection[int], until_s: float | None = None) -> int | None:
        """None when the time is over."""
        while True:
            left_s = None if until_s is None else max(0.0, until_s - time.monotonic())
            if not select.select([self._signals], [], [], left_s)[0]:
                return None
            if (number := os.read(self._signals, 1)[0]) in of:
                return number

    def _end(self, number: int | None) -> None:
        # Not without end: what the main thread says may wait for whoever reads it.
        self._end_lock.acquire(timeout=_CLAIMED_S)
        try:
            terminal = _silenced()
            if os.isatty(terminal):
                # What a live display has hidden, and a new line behind the ^C.
                os.write(terminal, _SHOW_CURSOR + (b"\n" if number == signal.SIGINT else b""))
            for action in reversed(self._at_end):
                action()
        finally:
            os._exit(self._exit_code)


def _silenced() -> int:
    """Standard error for whoever gets it from here. For all other threads, both it and standard
    output lead nowhere: they go on until the process has ended, and complain of what was ended
    under them."""
    stderr, nowhere = os.dup(_STDERR), os.open(os.devnull, os.O_WRONLY)
    for descriptor in (_STDOUT, _STDERR):
        os.dup2(nowhere, descriptor)
    return stderr


_watcher: Watcher | None = None


def watch(exit_code: int) -> None:
    """From here on the thread hears of signals. At once, the process ends with `exit_code`."""
    global _watcher
    assert _watcher is None, "one is enough"
    _watcher = Watcher(exit_code)
    _watcher.start()


@contextmanager
def stoppable(grace_s: float | None = GRACE_S) -> Iterator[Event]:
    """The event that a signal sets. The block looks at it at least twice a second, and ends in
    order; `grace_s` None gives it as long as it takes. What no thread watches (a test calls a
    command, say) is never told to stop."""
    if _watcher is None:
        yield Event()
        return
    with _watcher.stoppable(grace_s):
        yield _watcher.stop


def is_stopping() -> bool:
    """Whether a `stoppable` block was told to stop."""
    return _watcher is not None and _watcher.stop.is_set()


@contextmanager
def at_end(action: Callable[[], object]) -> Iterator[None]:
    """A signal that ends the process at once in this block has `action` called first, on another
    thread: to end a child, say. It must not take long, and whatever it prints is not seen."""
    if _watcher is None:
        yield
        return
    with _watcher.at_end(action):
        yield


def claim_end() -> None:
    """Before the main thread says why it ends: see Watcher."""
    if _watcher is not None:
        _watcher.claim_end()


def take_over() -> None:
    """After a library has set a handler of its own: ours again."""
    if _watcher is not None:
        _watcher.take_over()


def until_stopped(items: Iterable[T]) -> Iterator[T]:
    """In a `stoppable` block, for items that one may wait for without end, as for lines of a
    terminal: a signal ends the wait."""
    return iter(items) if _watcher is None else _watcher.read(iter(items))
