from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from ottla.config.broker import BrokerConfig
from ottla.coordinators.transactions.markers import TransactionMarkers
from ottla.coordinators.transactions.transaction import NO_TIMEOUT_MS
from ottla.coordinators.transactions.transaction_coordinator import (
    TransactionCoordinator,
    told_to_client,
)
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import ProducerId, ProducerIdAndEpoch
from ottla.replication.partition import Partition
from ottla.testing.loop import VirtualClock
from ottla.wire.messages.end_txn import EndTxnRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.list_transactions import ListTransactionsRequest
from tests.support.led_partition import fetched, lead_two_replicas
from tests.support.simulated_broker import SimulatedBroker, with_broker
from tests.support.transactions import ID, P0, P1

VERSION = 5


class ProducerIds:
    def __init__(self) -> None:
        self.given_count = 0
        self.failure: KafkaError | None = None

    async def next(self) -> ProducerId:
        await asyncio.sleep(0.01)
        if self.failure is not None:
            raise self.failure
        self.given_count += 1
        return ProducerId(self.given_count)


class Markers:
    """Writes nothing until `gate` is set, and remembers what it was to write."""

    def __init__(self) -> None:
        self.asked: list[TransactionMarkers] = []
        self.written: list[TransactionMarkers] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.failure: KafkaError | None = None

    async def write(self, markers: TransactionMarkers) -> None:
        self.asked.append(markers)
        await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        self.written.append(markers)


class Coordinated:
    """A coordinator whose one shard is a partition of a simulated broker."""

    def __init__(self, broker: SimulatedBroker, partition: Partition, **settings: str) -> None:
        self.partition = partition
        self.producer_ids = ProducerIds()
        self.markers = Markers()
        config = BrokerConfig({name.replace("_", "."): text for name, text in settings.items()})
        self.coordinator = TransactionCoordinator(
            lambda: config,
            VirtualClock(broker.loop),
            random.Random(0),
            self.producer_ids,
            self.markers,
        )
        self.coordinator.partition_count = 1

    async def lead(self) -> None:
        self.coordinator.become_leader(self.partition.leader)
        while True:
            try:
                await self.coordinator.list(ListTransactionsRequest())
                return
            except KafkaError:
                await asyncio.sleep(0.001)

    async def init(
        self, version: int = VERSION, transactional_id: str | None = ID, **fields: Any
    ) -> InitProducerIdResponse:
        request = InitProducerIdRequest(
            **{
                "transactional_id": transactional_id,
                "transaction_timeout_ms": 60_000,
                **fields,
            }
        )
        return await self.coordinator.init_producer_id(request, version)

    async def begin(self) -> ProducerIdAndEpoch:
        answer = await self.init()
        assert answer.error_code == 0
        return ProducerIdAndEpoch(answer.producer_id, answer.producer_epoch)

    async def add(self, producer: ProducerIdAndEpoch, transactional_id: str = ID) -> None:
        await self.coordinator.add_partitions(
            transactional_id, *producer, [P0, P1], transaction_version=2
        )

    async def end(
        self, producer: ProducerIdAndEpoch, is_commit: bool = True, transactional_id: str = ID
    ) -> ProducerIdAndEpoch:
        request = EndTxnRequest(
            transactional_id=transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            committed=is_commit,
        )
        return await self.coordinator.end(request, transaction_version=2)

    async def state(self) -> str:
        return (await self.coordinator.describe(ID)).transaction_state


def coordinated(test: Callable[[Coordinated], Coroutine[Any, Any, None]], **settings: str) -> None:
    async def main(broker: SimulatedBroker) -> None:
        await broker.create_topic("state", cleanup_policy="compact")
        partition = broker.machine.broker.replicas.partition("state", 0)
        one = Coordinated(broker, partition, **settings)
        await one.lead()
        await test(one)
        await one.coordinator.close()

    with_broker(main)


@contextmanager
def refused(code: ErrorCode) -> Iterator[None]:
    with pytest.raises(KafkaError) as raised:
        yield
    assert raised.value.code is code


# -- producers ----------------------------------------------------------------------------------


def test_producers_without_a_transactional_id_get_an_id_each() -> None:
    async def test(one: Coordinated) -> None:
        for expected in (1, 2):
            answer = await one.init(transactional_id=None)
            assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (
                0,
                expected,
                0,
            )

    coordinated(test)


def test_a_producer_id_is_taken_only_where_it_is_needed() -> None:
    async def test(one: Coordinated) -> None:
        for epoch in range(3):
            assert await one.begin() == (1, epoch)
        assert one.producer_ids.given_count == 1

    coordinated(test)


def test_two_starts_of_a_new_id_at_once_get_one_producer_id() -> None:
    async def test(one: Coordinated) -> None:
        first, second = await asyncio.gather(one.begin(), one.begin())
        assert first.producer_id == second.producer_id
        assert {first.producer_epoch, second.producer_epoch} == {0, 1}

    coordinated(test)


def test_without_producer_ids_a_start_is_told_to_come_again() -> None:
    async def test(one: Coordinated) -> None:
        one.producer_ids.failure = KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        answer = await one.init()
        assert answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert (answer.producer_id, answer.producer_epoch) == (-1, -1)

    coordinated(test)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"transactional_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"producer_id": 5}, ErrorCode.INVALID_REQUEST),
        ({"producer_epoch": 5}, ErrorCode.INVALID_REQUEST),
        ({"transactional_id": None, "producer_id": 5}, ErrorCode.INVALID_REQUEST),
        ({"transaction_timeout_ms": 0}, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ({"transaction_timeout_ms": 900_001}, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ({"transaction_timeout_ms": 900_000}, ErrorCode.NONE),
        ({"enable_2pc": True}, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        ({"keep_prepared_txn": True}, ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_what_a_producer_may_ask_for(fields: dict[str, Any], code: ErrorCode) -> None:
    async def test(one: Coordinated) -> None:
        answer = await one.init(**fields)
        assert answer.error_code == code

    coordinated(test)


def test_two_phase_commit_knows_no_time_out_where_it_is_allowed() -> None:
    async def test(one: Coordinated) -> None:
        answer = await one.init(enable_2pc=True, transaction_timeout_ms=0)
        assert answer.error_code == 0
        assert (await one.coordinator.describe(ID)).transaction_timeout_ms == NO_TIMEOUT_MS

    coordinated(test, transaction_two_phase_commit_enable="true")


def test_old_versions_hear_of_fencing_in_the_words_they_know() -> None:
    async def test(one: Coordinated) -> None:
        producer = await one.begin()
        await one.begin()
        for version, code in (
            (3, ErrorCode.INVALID_PRODUCER_EPOCH),
            (4, ErrorCode.PRODUCER_FENCED),
        ):
            answer = await one.init(
                version,
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
            )
            assert answer.error_code == code

    coordinated(test)
    for operation in ("add_partitions", "add_offsets", "end"):
        fenced = ErrorCode.PRODUCER_FENCED
        assert told_to_client(fenced, operation, 1) is ErrorCode.INVALID_PRODUCER_EPOCH
        assert told_to_client(fenced, operation, 2) is fenced
        other = ErrorCode.INVALID_TXN_STATE
        assert told_to_client(other, operation, 0) is other


# -- transactions -------------------------------------------------------------------------------


def test_an_end_is_answered_when_it_is_decided_and_complete_when_all_markers_are_written() -> None:
    async def test(one: Coordinated) -> None:
        one.markers.gate.clear()
        producer = await one.begin()
        await one.add(producer)
        following = await one.end(producer)
        assert following == (producer.producer_id, 1)
        await asyncio.sleep(1)
        assert await one.state() == "PrepareCommit"
        with refused(ErrorCode.CONCURRENT_TRANSACTIONS):
            await one.add(following)
        one.markers.gate.set()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert await one.state() == "CompleteCommit"
        assert one.markers.written == [
            TransactionMarkers(
                transactional_id=ID,
                producer_id=producer.producer_id,
                producer_epoch=1,
                coordinator_epoch=one.partition.leader_epoch,
                is_commit=True,
                transaction_version=2,
                partitions=frozenset({P0, P1}),
            )
        ]

    coordinated(test)


def test_where_nothing_is_waited_for_an_end_is_complete_when_it_is_answered() -> None:
    """Else the next transaction of a quick client met the one before, and was told to wait."""

    async def test(one: Coordinated) -> None:
        producer = await one.begin()
        for _ in range(3):
            await one.add(producer)
            producer = await one.end(producer)
            assert await one.state() == "CompleteCommit"

    coordinated(test)


def test_what_has_no_partitions_needs_no_markers() -> None:
    async def test(one: Coordinated) -> None:
        producer = await one.begin()
        await one.end(producer, is_commit=False)
        await asyncio.sleep(0)
        assert await one.state() == "CompleteAbort"
        assert one.markers.asked == []

    coordinated(test)


def test_a_start_is_told_to_come_again_while_the_open_transaction_is_aborted() -> None:
    async def test(one: Coordinated) -> None:
        producer = await one.begin()
        await one.add(producer)
        answer = await one.init()
        assert answer.error_code == ErrorCode.CONCURRENT_TRANSACTIONS
        await asyncio.sleep(0.1)
        assert await one.begin() == (producer.producer_id, 2)
        (markers,) = one.markers.written
        assert (markers.is_commit, markers.producer_epoch) == (False, 1)

    coordinated(test)


def test_what_was_prepared_is_finished_by_the_next_leader() -> None:
    async def test(one: Coordinated) -> None:
        one.markers.gate.clear()
        producer = await one.begin()
        await one.add(producer)
        await one.end(producer)
        await asyncio.sleep(0)
        assert len(one.markers.asked) == 1
        one.coordinator.resign(0)
        with refused(ErrorCode.NOT_COORDINATOR):
            await one.add(producer)
        one.markers.gate.set()
        await asyncio.sleep(1)
        # Who leads no more writes nothing more.
        assert one.markers.written == []
        one.partition.leader.leader_epoch += 1
        await one.lead()
        await asyncio.sleep(0.1)
        assert await one.state() == "CompleteCommit"
        (markers,) = one.markers.written
        first = one.markers.asked[0]
        assert markers.coordinator_epoch == first.coordinator_epoch + 1
        assert (markers.producer_epoch, markers.is_commit) == (first.producer_epoch, True)

    coordinated(test)


def test_a_complete_record_that_cannot_be_written_is_tried_again() -> None:
    async def test(one: Coordinated) -> None:
        one.markers.gate.clear()
        producer = await one.begin()
        await one.add(producer)
        await one.end(producer)
        in_sync = one.partition.leader.in_sync
        isr, in_sync.committed = in_sync.committed, frozenset()
        one.markers.gate.set()
        await asyncio.sleep(2)
        assert await one.state() == "PrepareCommit"
        in_sync.committed = isr
        await asyncio.sleep(1)
        assert await one.state() == "CompleteCommit"
        assert len(one.markers.asked) == 1

    coordinated(test)


def test_a_fenced_coordinator_leaves_it_to_the_next() -> None:
    async def test(one: Coordinated) -> None:
        one.markers.failure = KafkaError(ErrorCode.TRANSACTION_COORDINATOR_FENCED)
        producer = await one.begin()
        await one.add(producer)
        await one.end(producer)
        await asyncio.sleep(60)
        assert await one.state() == "PrepareCommit"
        assert len(one.markers.asked) == 1

    coordinated(test)


def test_a_transaction_that_takes_too_long_is_aborted() -> None:
    async def test(one: Coordinated) -> None:
        producer = await one.begin()
        await one.add(producer)
        await asyncio.sleep(75)
        assert await one.state() == "CompleteAbort"
        (markers,) = one.markers.written
        assert (markers.is_commit, markers.producer_epoch) == (False, 1)
        with refused(ErrorCode.PRODUCER_FENCED):
            await one.add(producer)

    coordinated(test)


def test_an_abort_for_time_that_cannot_be_written_is_tried_again() -> None:
    async def test(one: Coordinated) -> None:
        producer = await one.begin()
        await one.add(producer)
        in_sync = one.partition.leader.in_sync
        isr, in_sync.committed = in_sync.committed, frozenset()
        await asyncio.sleep(75)
        assert await one.state() == "Ongoing"
        in_sync.committed = isr
        await asyncio.sleep(15)
        assert await one.state() == "CompleteAbort"

    coordinated(test)


def test_an_empty_id_is_a_bad_request() -> None:
    async def test(one: Coordinated) -> None:
        producer = ProducerIdAndEpoch(1, 0)
        with refused(ErrorCode.INVALID_REQUEST):
            await one.add(producer, "")
        with refused(ErrorCode.INVALID_REQUEST):
            await one.end(producer, transactional_id="")
        bad = ErrorCode.INVALID_REQUEST
        assert await one.coordinator.verify_partitions("", 1, 0, [P0]) == {P0: bad}
        assert (await one.coordinator.describe("")).error_code == bad

    coordinated(test)


def test_partitions_are_verified() -> None:
    async def test(one: Coordinated) -> None:
        verify = one.coordinator.verify_partitions
        assert await verify("unknown", 1, 0, [P0]) == {P0: ErrorCode.INVALID_PRODUCER_ID_MAPPING}
        producer = await one.begin()
        await one.add(producer)
        assert await verify(ID, *producer, [P0]) == {P0: ErrorCode.NONE}

    coordinated(test)


def test_transactions_are_listed_and_described() -> None:
    async def test(one: Coordinated) -> None:
        producer = await one.begin()
        filters = ["Ongoing", "Empty", "Dead", "nonsense", "nonsense"]
        answer = await one.coordinator.list(ListTransactionsRequest(state_filters=filters))
        assert answer.unknown_state_filters == ["nonsense"]
        (listed,) = answer.transaction_states
        assert (listed.transactional_id, listed.producer_id, listed.transaction_state) == (
            ID,
            producer.producer_id,
            "Empty",
        )
        assert (await one.coordinator.describe(ID)).producer_id == producer.producer_id
        unknown = await one.coordinator.describe("unknown")
        assert unknown.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        assert unknown.transactional_id == "unknown"

    coordinated(test)


def test_markers_wait_until_what_was_prepared_is_committed() -> None:
    """A marker written on behalf of a record that another leader does not have would end the
    transaction in one partition, and leave it open in the others."""

    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("state", cleanup_policy="compact")
        partition = broker.machine.broker.replicas.partition("state", 0)
        one = Coordinated(broker, partition)
        await one.lead()
        producer = await one.begin()
        await one.add(producer)
        end = partition.log.log_end_offset

        async def lead(leader_epoch: int) -> None:
            await lead_two_replicas(partition, broker, isr=(1, 2), leader_epoch=leader_epoch)
            one.coordinator.become_leader(partition.leader)
            await asyncio.sleep(1)

        await lead(1)
        fetched(partition, end)
        ending = asyncio.ensure_future(one.end(producer))
        await asyncio.sleep(5)
        assert one.markers.asked == []
        # The next leader has found it in its log, and nobody else has it yet.
        await lead(2)
        with refused(ErrorCode.NOT_COORDINATOR):
            await ending
        assert one.markers.asked == []
        fetched(partition, end + 1)
        await asyncio.sleep(1)
        (markers,) = one.markers.written
        assert (markers.coordinator_epoch, markers.is_commit) == (2, True)
        await one.coordinator.close()

    with_broker(test)
