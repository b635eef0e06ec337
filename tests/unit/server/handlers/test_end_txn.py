from __future__ import annotations

import pytest

from ottla.kernel.errors import ErrorCode
from ottla.wire.messages.end_txn import EndTxnRequest
from tests.support.simulated_broker import SimulatedBroker, with_broker
from tests.support.simulated_transaction import Transactional, read


@pytest.mark.parametrize("version", EndTxnRequest.VERSIONS)
def test_all_or_nothing_is_read(version: int) -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t", 2)
        producer = Transactional(broker, is_version_2=version >= 5)
        assert await producer.init() is ErrorCode.NONE
        for values, is_commit in (([b"a", b"b"], True), ([b"x", b"y"], False), ([b"c"], True)):
            if version < 5:
                assert set(await producer.add("t", 0, 1)) == {ErrorCode.NONE}
            for partition in (0, 1):
                assert await producer.send("t", *values, partition=partition) is ErrorCode.NONE
            before = await read(broker, "t")
            assert values[0] not in before, "nothing is seen before the end"
            assert values[0] in await read(broker, "t", is_committed=False)
            assert await producer.end(is_commit=is_commit, version=version) is ErrorCode.NONE
        for partition in (0, 1):
            assert await read(broker, "t", partition=partition) == [b"a", b"b", b"c"]

    with_broker(test)


def test_each_end_raises_the_epoch_in_version_2() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        producer = Transactional(broker)
        await producer.init()
        epochs = []
        for _ in range(3):
            epochs.append(producer.producer.producer_epoch)
            assert await producer.send("t", b"v") is ErrorCode.NONE
            await producer.commit()
        assert epochs == [0, 1, 2]

    with_broker(test)


@pytest.mark.parametrize(
    ("version", "code"),
    [(1, ErrorCode.INVALID_PRODUCER_EPOCH), (2, ErrorCode.PRODUCER_FENCED)],
)
def test_a_zombie_ends_nothing(version: int, code: ErrorCode) -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        zombie = Transactional(broker, is_version_2=False)
        await zombie.init()
        successor = Transactional(broker, is_version_2=False)
        await successor.init()
        await successor.add("t", 0)
        assert await successor.send("t", b"mine") is ErrorCode.NONE
        assert await zombie.end(is_commit=False, version=version) is code
        await successor.commit()
        assert await read(broker, "t") == [b"mine"]

    with_broker(test)


def test_an_id_that_nobody_initialised() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await Transactional(broker, "other").init()
        code = await Transactional(broker).end(is_commit=True)
        assert code is ErrorCode.INVALID_PRODUCER_ID_MAPPING

    with_broker(test)
