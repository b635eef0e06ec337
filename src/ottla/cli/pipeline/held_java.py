"""The Java that a command has started for Spark: ended with it, and blamed where it died."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from ottla.cli.interrupts import at_end

if TYPE_CHECKING:
    from ottla.pipeline.run.java_process import JavaProcess


class JavaDied(Exception):
    """Says of what."""


@contextmanager
def held_java(patience_s: float | None = None) -> Iterator[Callable[[JavaProcess], None]]:
    """Takes what is started, and ends it; `patience_s` is for `JavaProcess.end`. Where Java dies in
    between, whatever it was asked for fails, each in its own way, and none says why: then this
    raises JavaDied."""
    patience = {} if patience_s is None else {"patience_s": patience_s}
    started: list[JavaProcess] = []
    try:
        with ExitStack() as stack:

            def hold(java: JavaProcess) -> None:
                started.append(java)
                stack.enter_context(at_end(java.kill))
                stack.callback(java.end, **patience)

            yield hold
    except Exception as error:
        died_of = next((java.died_of for java in started if java.died_of is not None), None)
        if died_of is None:
            raise
        raise JavaDied(f"Java, which runs Spark, died ({died_of})") from error
