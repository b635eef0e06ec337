from __future__ import annotations

import asyncio

import pytest

from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.replication.delayed_delete_records import DelayedDeleteRecords
from ottla.testing.loop import VirtualLoop, run_virtual


def test_each_waits_for_its_own_offset() -> None:
    async def main(loop: VirtualLoop) -> None:
        low_watermark = 1
        delayed = DelayedDeleteRecords(lambda: low_watermark)
        assert await delayed.until(1) == 1
        waiting = [delayed.until(offset) for offset in (3, 2)]
        low_watermark = 2
        delayed.check()
        assert await waiting[1] == 2
        assert not waiting[0].done()
        low_watermark = 9
        delayed.check()
        delayed.check()
        assert await waiting[0] == 9
        await asyncio.sleep(0)
        assert len(delayed) == 0

    run_virtual(main)


def test_another_leader_and_patience_that_ends_leave_nothing_behind() -> None:
    async def main(loop: VirtualLoop) -> None:
        delayed = DelayedDeleteRecords(lambda: 0)
        impatient, patient = delayed.until(1), delayed.until(1)
        impatient.cancel()
        delayed.fail(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        with pytest.raises(KafkaError, match="NOT_LEADER_OR_FOLLOWER"):
            await patient
        await asyncio.sleep(0)
        assert len(delayed) == 0

    run_virtual(main)
