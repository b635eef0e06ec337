"""The broker's log: a line a message on standard error, as key=value or as JSON.

What a caller passes as `extra` becomes fields of the line. A message below the level costs one
comparison: nothing is formatted.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

LEVELS = ("debug", "info", "warning", "error")

_OWN_ATTRIBUTES = frozenset(
    {*vars(logging.LogRecord("", 0, "", 0, "", (), None)), "message", "asctime", "taskName"}
)


def set_up_logs(level: str, *, as_json: bool) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if as_json else KeyValueFormatter())
    # Libraries below us may warn; our own words have the level that was asked for.
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logging.getLogger("ottla").setLevel(level.upper())


def log_state_changes(path: str) -> None:
    """Into a file of its own, whatever the level of the rest: one line for each change of a leader,
    an ISR, a replica's role, the controller or a session. It is opened anew after logrotate has
    moved it. Raises OSError."""
    from logging.handlers import WatchedFileHandler  # where it is wanted: it imports sockets

    handler = WatchedFileHandler(path)
    handler.setFormatter(_StateChangeFormatter())
    logger = logging.getLogger("ottla.state_change")
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    logger.propagate = False


def fields_of(record: logging.LogRecord) -> dict[str, object]:
    moment = datetime.fromtimestamp(record.created, UTC)
    fields: dict[str, object] = {
        "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "level": record.levelname.lower(),
        "logger": record.name,
        "message": record.getMessage(),
    }
    for name, value in vars(record).items():
        if name not in _OWN_ATTRIBUTES:
            fields[name] = value
    return fields


class KeyValueFormatter(logging.Formatter):
    """A traceback follows below its line, where a person can read it."""

    def format(self, record: logging.LogRecord) -> str:
        line = " ".join(f"{name}={_quoted(value)}" for name, value in fields_of(record).items())
        if record.exc_info and record.exc_info[0] is not None:
            return f"{line}\n{self.formatException(record.exc_info)}"
        return line


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields = fields_of(record)
        if record.exc_info and record.exc_info[0] is not None:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps(fields, default=str, ensure_ascii=False)


class _StateChangeFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return f"{fields_of(record)['time']} {record.getMessage()}"


def _quoted(value: object) -> str:
    text = str(value)
    if text and not any(character in text for character in ' "=\n\r\t'):
        return text
    return json.dumps(text, ensure_ascii=False)
