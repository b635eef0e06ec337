"""What happened in a run, and when: by its hash two runs can be told to be the same."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ottla.kernel.state_change_log import logger as state_change_logger
from ottla.testing.loop import VirtualLoop
from ottla.testing.machine import current_broker_id


class Trace(logging.Handler):
    """Owned by a run. Lines of logs are in it to be read; the hash leaves them out."""

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.problems: list[str] = []
        """What no broker should say or do, whatever happens to it."""
        self.on_state_change: Callable[[int], None] = lambda broker_id: None
        """Told whose state has just changed."""
        self._loop = loop
        self._hash = hashlib.sha256()

    def note(self, what: str) -> None:
        line = f"{self._loop.now_s:11.6f} {what}"
        self._hash.update(line.encode())
        self.lines.append(line)

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
        level = state_change_logger.level
        state_change_logger.setLevel(logging.DEBUG)
        logger.addHandler(self)
        try:
            yield
        finally:
            logger.removeHandler(self)
            state_change_logger.setLevel(level)

    def emit(self, record: logging.LogRecord) -> None:
        who = current_broker_id()
        text = record.getMessage()
        if record.exc_info:
            text += "\n" + logging.Formatter().formatException(record.exc_info)
        line = f"[{'-' if who is None else who}] {record.levelname} {record.name}: {text}"
        self.lines.append(f"{self._loop.now_s:11.6f} {line}")
        if record.name == state_change_logger.name and who is not None:
            self.on_state_change(who)
        if record.exc_info:
            self.problems.append(line)
