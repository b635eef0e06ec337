from __future__ import annotations

import pytest

from ottla.coordinators import log_batches
from ottla.coordinators.log_batches import written_batches
from ottla.records.batch import MAGIC_AT
from ottla.records.errors import CorruptRecord
from ottla.storage.errors import StorageFailure
from ottla.storage.log import Log
from ottla.testing.disk import Fault
from tests.support.led_partition import append, new_partition
from tests.support.simulated_broker import SimulatedBroker, with_broker


async def offsets(log: Log, offset: int = 0) -> list[int]:
    return [header.base_offset async for header, _ in written_batches(log, offset)]


@pytest.mark.parametrize("read_bytes", [1, 1000])
def test_batches_come_in_their_order_also_those_that_are_written_meanwhile(
    read_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_batches, "_READ_BYTES", read_bytes)

    async def test(broker: SimulatedBroker) -> None:
        partition = await new_partition(broker)
        log = partition.log
        assert await offsets(log) == []
        for _ in range(5):
            append(partition, b"x", b"y")
        assert await offsets(log) == [0, 2, 4, 6, 8]
        assert await offsets(log, 4) == [4, 6, 8]
        found = []
        async for header, batch in written_batches(log, 8):
            found.append((header.base_offset, len(batch)))
            if len(found) == 1:
                append(partition, b"more")
        assert [offset for offset, _ in found] == [8, 10]

    with_broker(test)


def test_what_is_no_batch_is_told_of() -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await new_partition(broker)
        append(partition, b"x")
        file = broker.machine.disk.open("/data/t-0/00000000000000000000.log")
        file.write_at(MAGIC_AT, (b"\x07",))
        file.close()
        with pytest.raises(CorruptRecord):
            await offsets(partition.log)

    with_broker(test)


def test_a_disk_that_cannot_be_read_has_failed() -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await new_partition(broker)
        append(partition, b"x")
        broker.machine.disk.fail(Fault("read_at", "/data/t-0", count=1))
        with pytest.raises(StorageFailure):
            await offsets(partition.log)
        broker.machine.kill()
        await broker.machine.start()

    with_broker(test)
