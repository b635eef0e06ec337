"""Where the libraries in a pipeline's process complain: Spark's log. The terminal is for what the
command itself says.

When Java ends, in order or not, every connection to it breaks, and whoever has one says so with a
traceback, on a thread of its own: py4j to the root logger, Spark's server for accumulators to
standard error.
"""

from __future__ import annotations

import logging
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.cli.errors import warn

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FORMAT = "%(asctime)s.%(msecs)03d %(levelname)s %(name)s: %(message)s"
_TIME = "%Y-%m-%d %H:%M:%S"
"""As Spark's own lines begin."""

_log = logging.getLogger("driver")


def log_to(path: Path) -> None:
    """For the rest of this process: what is logged, warned of, or raised where nobody catches it.
    Warnings of Ottla's own are for the user, and said on the terminal too."""
    handler = _LogFile(path, delay=True)
    handler.setFormatter(logging.Formatter(_FORMAT, _TIME))
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logging.getLogger("ottla").addHandler(_Said(logging.WARNING))
    logging.captureWarnings(True)
    threading.excepthook = _log_thread
    sys.unraisablehook = _log_unraisable


def log_accumulators(spark: SparkSession) -> None:
    """The server that tasks report their counts to."""
    server = getattr(getattr(spark, "_sc", None), "_accumulatorServer", None)
    if server is not None:  # a session that is elsewhere has none
        server.handle_error = lambda *_: _log.exception("accumulators")


class _LogFile(logging.FileHandler):
    """Java writes to the file too. A disk that fails is no reason to fail, nor to fill the
    terminal."""

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(OSError):
            super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:
        pass


class _Said(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        warn(record.getMessage())


def _log_thread(args: threading.ExceptHookArgs) -> None:
    if args.exc_value is not None:
        name = "" if args.thread is None else args.thread.name
        _log.error("exception in thread %s", name, exc_info=args.exc_value)


def _log_unraisable(args: sys.UnraisableHookArgs) -> None:
    _log.error("exception ignored in %r", args.object, exc_info=args.exc_value)
