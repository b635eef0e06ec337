"""What happened in a run, and when: by its hash two runs can be told to be the same."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ottla.kernel import state_change_log
from ottla.testing.loop import VirtualLoop
from ottla.testing.machine import current_broker_id
from ottla.testing.simulation.entry import FAULTS, Entry, Mark


class Trace(logging.Handler):
    """Owned by a run. Lines of logs are in it to be read; the hash leaves them out."""

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self.entries: list[Entry] = []
        self.problems: list[str] = []
        """What no broker should say or do, whatever happens to it."""
        self.on_state_change: Callable[[int], None] = lambda broker_id: None
        """Told whose state has just changed."""
        self._loop = loop
        self._hash = hashlib.sha256()

    def note(self, what: str, host: str = FAULTS, mark: Mark = Mark.FAULT) -> None:
        entry = Entry(self._loop.now_s, host, mark, what)
        self._hash.update(str(entry).encode())
        self.entries.append(entry)

    @property
    def lines(self) -> list[str]:
        return [str(entry) for entry in self.entries]

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()[:16]

    def unhandled(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """An exception that nobody has asked for, or that a callback has raised. A future whose
        waiter has died with its process is none of them."""
        message = context["message"]
        if not message.startswith(("Future exception", "_GatheringFuture")):
            error = context.get("exception")
            text = "" if error is None else "".join(traceback.format_exception(error))
            self.problems.append(f"{message}: {text}")

    @contextmanager
    def listening(self) -> Iterator[None]:
        """To what brokers log: whatever the level is, to changes of state."""
        logger = logging.getLogger("ottla")
        level = state_change_log.logger.level
        state_change_log.logger.setLevel(logging.DEBUG)
        logger.addHandler(self)
        try:
            yield
        finally:
            logger.removeHandler(self)
            state_change_log.logger.setLevel(level)

    def emit(self, record: logging.LogRecord) -> None:
        who = current_broker_id()
        host = FAULTS if who is None else f"broker{who}"
        text = record.getMessage()
        if record.name == state_change_log.logger.name:
            text = text.removeprefix(f"broker {who}").removeprefix(":").lstrip()
            self.entries.append(Entry(self._loop.now_s, host, Mark.ROLE, text))
            if who is not None:
                self.on_state_change(who)
            return
        if record.exc_info:
            text += "\n" + logging.Formatter().formatException(record.exc_info)
        text = f"{record.levelname} {record.name}: {text}"
        mark = Mark.PROBLEM if record.exc_info else Mark.LOG
        self.entries.append(Entry(self._loop.now_s, host, mark, text))
        if record.exc_info:
            self.problems.append(f"{host}: {text}")
