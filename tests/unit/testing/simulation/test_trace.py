from __future__ import annotations

import asyncio
import logging

from ottla.testing.loop import VirtualLoop, run_virtual
from ottla.testing.simulation.trace import Trace

log = logging.getLogger("test_trace")


def test_the_digest_is_of_what_happened_and_when() -> None:
    async def main(loop: VirtualLoop) -> list[str]:
        digests = []
        for pause_s, what in ((0, "a"), (0, "a"), (0, "b"), (1, "a")):
            await asyncio.sleep(pause_s)
            trace = Trace(loop)
            trace.note(what)
            digests.append(trace.digest)
        return digests

    same, again, other, later = run_virtual(main)
    assert same == again
    assert len({same, other, later}) == 3


def test_lines_of_logs_are_kept_and_tracebacks_are_problems() -> None:
    async def main(loop: VirtualLoop) -> None:
        trace = Trace(loop)
        digest = trace.digest
        log.addHandler(trace)
        log.warning("a word")
        try:
            raise ValueError("unforeseen")
        except ValueError:
            log.exception("failed")
        log.removeHandler(trace)
        assert "WARNING test_trace: a word" in trace.lines[0]
        assert "unforeseen" in trace.problems[0]
        assert trace.digest == digest
        trace.unhandled(loop, {"message": "Future exception was never retrieved"})
        trace.unhandled(loop, {"message": "Exception in callback", "exception": ValueError("x")})
        assert len(trace.problems) == 2

    run_virtual(main)
