from __future__ import annotations

import asyncio
import logging

from ottla.kernel import state_change_log
from ottla.kernel.ids import BrokerId
from ottla.kernel.state_change_log import StateChangeLog
from ottla.testing.loop import VirtualLoop, run_virtual
from ottla.testing.simulation.entry import FAULTS, Entry, Mark
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
        marks = [(entry.host, entry.mark) for entry in trace.entries]
        assert marks == [(FAULTS, Mark.LOG), (FAULTS, Mark.PROBLEM)]
        assert trace.entries[0].text == "WARNING test_trace: a word"
        assert "unforeseen" in trace.problems[0]
        assert trace.digest == digest
        trace.unhandled(loop, {"message": "Future exception was never retrieved"})
        trace.unhandled(loop, {"message": "Exception in callback", "exception": ValueError("x")})
        assert len(trace.problems) == 2

    run_virtual(main)


def test_changes_of_state_are_told_of_the_broker_that_logs_them() -> None:
    async def main(loop: VirtualLoop) -> list[Entry]:
        trace = Trace(loop)
        state_change_log.logger.addHandler(trace)
        state_change_log.logger.setLevel(logging.DEBUG)
        try:
            StateChangeLog(BrokerId(2)).controller_changed("is now", 3)
        finally:
            state_change_log.logger.setLevel(logging.NOTSET)
            state_change_log.logger.removeHandler(trace)
        return trace.entries

    (entry,) = run_virtual(main)
    assert (entry.mark, entry.text) == (Mark.ROLE, "broker 2 is now controller, epoch 3")
