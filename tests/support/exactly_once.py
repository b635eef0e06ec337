"""Copiers that read a partition, write what they have read elsewhere, and commit both, what they
wrote and how far they have read, in transactions; on a simulated broker that is killed meanwhile.

Every try to copy some records is an attempt with a name of its own, which stands in all that it
writes. The ledger knows of each attempt whether it may have been committed, whether it was, and
holds what is read against that.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import ProducerIdAndEpoch
from ottla.kernel.transport import Network
from ottla.records.batch import iter_headers
from ottla.records.builder import build_batch
from ottla.records.record import Record, iter_records
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.offset_fetch import OffsetFetchResponse
from ottla.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.wire.messages.txn_offset_commit import TxnOffsetCommitResponse
from tests.support.raw_group import fetch_request
from tests.support.raw_transaction import txn_commit_request
from tests.support.reconnecting_client import UNREACHABLE, ReconnectingClient

PORT = 9092
INPUT, OUTPUT = "input", "output"
GROUP = "copiers"
OUTPUT_PARTITIONS = 3
ATTEMPT_RECORDS_MAX = 5
TRANSACTION_TIMEOUT_MS = 1000
READ_COMMITTED = 1

_TRY_AGAIN = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNSTABLE_OFFSET_COMMIT,
)
_PAUSE_S = 0.02
_TRIES = 60


class GaveUp(Exception):
    """The attempt cannot go on, for one who tries to go on with it."""


@dataclass(eq=False)
class Attempt:
    """To copy the input of one copier from `start` up to `end`."""

    name: str
    start: int
    end: int
    values: dict[int, list[bytes]] = field(default_factory=dict)
    """By partition of the output."""
    may_be_committed: bool = False
    is_acknowledged: bool = False
    is_committed: bool | None = None
    """None while it is not known."""


class Ledger:
    """Owned by a run."""

    def __init__(self) -> None:
        self.attempts: dict[str, Attempt] = {}
        self.read: dict[tuple[int, int], bytes] = {}

    def begin(self, copier: int, start: int, end: int, rng: random.Random) -> Attempt:
        attempt = Attempt(f"{copier}/{len(self.attempts)}", start, end)
        for number in range(start, end):
            partition = rng.randrange(OUTPUT_PARTITIONS)
            value = f"{attempt.name}/{number}".encode()
            attempt.values.setdefault(partition, []).append(value)
        self.attempts[attempt.name] = attempt
        return attempt

    def decided(self, attempt: Attempt, position: int) -> None:
        """The group's offset says how it came out."""
        assert position in (attempt.start, attempt.end), (
            f"attempt {attempt.name} from {attempt.start} to {attempt.end} "
            f"left the offset at {position}"
        )
        attempt.is_committed = position == attempt.end
        assert attempt.may_be_committed or not attempt.is_committed, (
            f"attempt {attempt.name} was committed, and nobody asked for that"
        )
        assert attempt.is_committed or not attempt.is_acknowledged, (
            f"the commit of attempt {attempt.name} was acknowledged, and is lost"
        )

    def saw(self, partition: int, offset: int, value: bytes) -> None:
        """A reader of what is committed has read this."""
        attempt = self.attempts[value.decode().rpartition("/")[0]]
        assert attempt.may_be_committed, f"{value!r} was read before its transaction was to end"
        assert attempt.is_committed is not False, f"{value!r} of an aborted transaction was read"
        known = self.read.setdefault((partition, offset), value)
        assert known == value, f"two values were read at {partition}@{offset}"

    def check_complete(self) -> None:
        """At the end: what was committed was read, whole and once, and nothing else."""
        expected: list[bytes] = []
        for attempt in self.attempts.values():
            assert attempt.is_committed is not None, f"attempt {attempt.name} is undecided"
            if attempt.is_committed:
                for values in attempt.values.values():
                    expected += values
        assert sorted(self.read.values()) == sorted(expected)

    def copied(self, copier: int) -> list[int]:
        """The numbers of the input records of this copier in the output."""
        found = [value.decode().split("/") for value in self.read.values()]
        return sorted(int(number) for owner, _, number in found if int(owner) == copier)


class Copier:
    """One application with a transactional id. An instance of it that is thought dead may live
    on for a while, and must not do harm."""

    def __init__(
        self,
        network: Network,
        ledger: Ledger,
        rng: random.Random,
        number: int,
        input_count: int,
        on_request: Callable[[], None],
    ) -> None:
        self._network = network
        self._ledger = ledger
        self._rng = rng
        self._number = number
        self._input_count = input_count
        self._on_request = on_request
        self._zombies: list[asyncio.Task[None]] = []

    async def run(self) -> None:
        instance = self._new_instance()
        position = await instance.start()
        while position < self._input_count:
            end = min(self._input_count, position + self._rng.randint(1, ATTEMPT_RECORDS_MAX))
            attempt = self._ledger.begin(self._number, position, end, self._rng)
            fate = self._rng.random()
            try:
                if fate < 0.1:
                    # Replaced by another instance, while it still works.
                    self._zombies.append(asyncio.create_task(_as_zombie(instance, attempt)))
                    await asyncio.sleep(self._rng.uniform(0, 0.2))
                    raise GaveUp
                await instance.copy(attempt)
                if fate < 0.15:
                    await asyncio.sleep(TRANSACTION_TIMEOUT_MS / 1000 * 2)
                    raise GaveUp
                await instance.end(attempt, is_commit=fate < 0.85)
                position = await instance.position()
            except GaveUp:
                instance.close()
                instance = self._new_instance()
                position = await instance.start()
            self._ledger.decided(attempt, position)
            await asyncio.sleep(self._rng.uniform(0, 0.05))
        await asyncio.gather(*self._zombies)
        instance.close()

    def _new_instance(self) -> Instance:
        return Instance(
            ReconnectingClient(self._network, PORT),
            self._rng,
            self._number,
            self._on_request,
            # Half of them speak version 1 of transactions.
            is_version_2=self._number % 2 == 0,
        )


async def _as_zombie(instance: Instance, attempt: Attempt) -> None:
    try:
        await instance.copy(attempt)
        await instance.end(attempt, is_commit=True)
    except GaveUp:
        pass
    instance.close()


class Instance:
    """A transactional producer, and what it commits of the group."""

    def __init__(
        self,
        client: ReconnectingClient,
        rng: random.Random,
        number: int,
        on_request: Callable[[], None],
        *,
        is_version_2: bool,
    ) -> None:
        self._client = client
        self._on_request = on_request
        self._rng = rng
        self._number = number
        self._is_version_2 = is_version_2
        self._transactional_id = f"copier-{number}"
        self._producer = ProducerIdAndEpoch(-1, -1)
        self._sequences = [0] * OUTPUT_PARTITIONS

    def close(self) -> None:
        self._client.close()

    async def start(self) -> int:
        """Ends whatever an instance before has left. Returns the position to go on from."""
        request = InitProducerIdRequest(
            transactional_id=self._transactional_id, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS
        )

        async def init() -> InitProducerIdResponse:
            return await self._client.call(request, InitProducerIdResponse, 4)

        answer = await self._persist(init, lambda answer: answer.error_code, tries=10_000)
        self._go_on_as(ProducerIdAndEpoch(answer.producer_id, answer.producer_epoch))
        assert await self._committed(is_stable=True) == await self._committed(is_stable=False), (
            "an offset waits for a transaction that has ended"
        )
        return await self.position()

    def _go_on_as(self, producer: ProducerIdAndEpoch) -> None:
        if producer != self._producer:
            self._producer = producer
            self._sequences = [0] * OUTPUT_PARTITIONS

    async def position(self) -> int:
        """Waits until the offset is stable."""
        while (found := await self._committed(is_stable=True)) is None:
            await asyncio.sleep(_PAUSE_S)
        return found

    async def _committed(self, *, is_stable: bool) -> int | None:
        """None where a transaction may change it."""
        request = fetch_request(9, GROUP, {INPUT: [self._number]}, require_stable=is_stable)

        async def fetch() -> OffsetFetchResponse:
            return await self._client.call(request, OffsetFetchResponse, 9)

        answer = await self._persist(
            fetch, lambda answer: answer.groups[0].error_code, tries=10_000
        )
        (found,) = answer.groups[0].topics[0].partitions
        if found.error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT:
            assert is_stable
            return None
        assert found.error_code == ErrorCode.NONE, ErrorCode(found.error_code).name
        offset: int = found.committed_offset
        return max(0, offset)

    async def copy(self, attempt: Attempt) -> None:
        """Writes, and commits the offset, in a transaction that stays open. Raises GaveUp."""
        if not self._is_version_2:
            await self._add_partitions(list(attempt.values))
        for partition, values in attempt.values.items():
            while values:
                count = self._rng.randint(1, len(values))
                await self._produce(partition, values[:count])
                values = values[count:]
            await asyncio.sleep(self._rng.uniform(0, 0.02))
        if not self._is_version_2:
            await self._add_offsets()
        await self._commit_offset(attempt.end)
        shown = await self._committed(is_stable=False)
        is_shown_early = shown == attempt.end and not attempt.may_be_committed
        assert not is_shown_early, f"the offset of attempt {attempt.name} is visible too early"

    async def end(self, attempt: Attempt, *, is_commit: bool) -> None:
        """Raises GaveUp where it is not known how it ended."""
        attempt.may_be_committed |= is_commit
        request = EndTxnRequest(
            transactional_id=self._transactional_id,
            producer_id=self._producer.producer_id,
            producer_epoch=self._producer.producer_epoch,
            committed=is_commit,
        )
        version = 5 if self._is_version_2 else 4

        async def end() -> EndTxnResponse:
            return await self._client.call(request, EndTxnResponse, version)

        # Of version 1 a request whose answer was lost may come late, and end the next transaction
        # of the same epoch (KIP-890): one who has not heard takes a new epoch.
        answer = await self._persist(
            end, lambda answer: answer.error_code, is_resent=self._is_version_2
        )
        attempt.is_acknowledged |= is_commit
        if self._is_version_2:
            self._go_on_as(ProducerIdAndEpoch(answer.producer_id, answer.producer_epoch))

    async def _add_partitions(self, partitions: list[int]) -> None:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._transactional_id,
            v3_and_below_producer_id=self._producer.producer_id,
            v3_and_below_producer_epoch=self._producer.producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=OUTPUT, partitions=partitions)],
        )

        async def add() -> AddPartitionsToTxnResponse:
            return await self._client.call(request, AddPartitionsToTxnResponse, 3)

        def code(answer: AddPartitionsToTxnResponse) -> int:
            (topic,) = answer.results_by_topic_v3_and_below
            return max(one.partition_error_code for one in topic.results_by_partition)

        await self._persist(add, code)

    async def _add_offsets(self) -> None:
        request = AddOffsetsToTxnRequest(
            transactional_id=self._transactional_id,
            producer_id=self._producer.producer_id,
            producer_epoch=self._producer.producer_epoch,
            group_id=GROUP,
        )

        async def add() -> AddOffsetsToTxnResponse:
            return await self._client.call(request, AddOffsetsToTxnResponse, 3)

        await self._persist(add, lambda answer: answer.error_code)

    async def _commit_offset(self, offset: int) -> None:
        request = txn_commit_request(
            GROUP,
            {INPUT: {self._number: offset}},
            transactional_id=self._transactional_id,
            producer_id=self._producer.producer_id,
            producer_epoch=self._producer.producer_epoch,
        )
        version = 5 if self._is_version_2 else 3

        async def commit() -> TxnOffsetCommitResponse:
            return await self._client.call(request, TxnOffsetCommitResponse, version)

        await self._persist(commit, lambda answer: answer.topics[0].partitions[0].error_code)

    async def _produce(self, partition: int, values: list[bytes]) -> None:
        async def produce() -> ProduceResponse:
            batch = build_batch(
                [Record(i, 0, None, value) for i, value in enumerate(values)],
                producer_id=self._producer.producer_id,
                producer_epoch=self._producer.producer_epoch,
                base_sequence=self._sequences[partition],
                is_transactional=True,
            )
            data = PartitionProduceData(index=partition, records=memoryview(batch))
            request = ProduceRequest(
                transactional_id=self._transactional_id,
                acks=-1,
                timeout_ms=1000,
                topic_data=[TopicProduceData(name=OUTPUT, partition_data=[data])],
            )
            version = 12 if self._is_version_2 else 11
            return await self._client.call(request, ProduceResponse, version)

        await self._persist(
            produce, lambda answer: answer.responses[0].partition_responses[0].error_code
        )
        self._sequences[partition] += len(values)

    async def _persist(
        self,
        call: Callable[[], Coroutine[Any, Any, Any]],
        code_of: Callable[[Any], int],
        *,
        is_resent: bool = True,
        tries: int = _TRIES,
    ) -> Any:
        """Until it is answered without an error that passes. Raises GaveUp on any other, after
        many tries, and, where it must not be sent again, when no answer came."""
        for _ in range(tries):
            self._on_request()
            try:
                answer = await call()
            except UNREACHABLE:
                if not is_resent:
                    raise GaveUp from None
            else:
                code = ErrorCode(code_of(answer))
                if code is ErrorCode.NONE:
                    return answer
                if code not in _TRY_AGAIN:
                    raise GaveUp(code.name)
            await asyncio.sleep(_PAUSE_S)
        raise GaveUp


class CommittedReader:
    """Reads the output as `read_committed` consumers do, all the time."""

    def __init__(self, network: Network, ledger: Ledger) -> None:
        self._client = ReconnectingClient(network, PORT)
        self._ledger = ledger
        self._positions = [0] * OUTPUT_PARTITIONS

    def close(self) -> None:
        self._client.close()

    async def run(self) -> None:
        while True:
            for partition in range(OUTPUT_PARTITIONS):
                try:
                    await self.read(partition)
                except UNREACHABLE:
                    await asyncio.sleep(_PAUSE_S)

    async def read_to_the_end(self) -> None:
        """What is stable must be all there is: nothing hangs."""
        for partition in range(OUTPUT_PARTITIONS):
            while True:
                found = await self.read(partition)
                if self._positions[partition] == found.high_watermark:
                    break
                assert found.last_stable_offset == found.high_watermark, (
                    f"a transaction hangs in partition {partition} at {found.last_stable_offset}"
                )

    async def read(self, partition: int) -> PartitionData:
        asked = FetchPartition(
            partition=partition,
            fetch_offset=self._positions[partition],
            partition_max_bytes=1000,
        )
        request = FetchRequest(
            max_wait_ms=50,
            min_bytes=1,
            isolation_level=READ_COMMITTED,
            topics=[FetchTopic(topic=OUTPUT, partitions=[asked])],
        )
        response = await self._client.call(request, FetchResponse, 12)
        found = response.responses[0].partitions[0]
        if found.error_code == ErrorCode.NONE:
            self._take(partition, found)
        return found

    def _take(self, partition: int, found: PartitionData) -> None:
        aborted = sorted(
            (one.first_offset, one.producer_id) for one in found.aborted_transactions or ()
        )
        skipped: set[int] = set()
        records = found.records
        assert isinstance(records, memoryview)
        for position, header in iter_headers(records, allow_partial=True):
            if header.last_offset < self._positions[partition]:
                continue
            assert header.last_offset < found.last_stable_offset
            while aborted and aborted[0][0] <= header.last_offset:
                skipped.add(aborted.pop(0)[1])
            if header.is_control:
                skipped.discard(header.producer_id)
            elif header.producer_id not in skipped:
                for record in iter_records(records[position : position + header.size_bytes]):
                    assert record.value is not None
                    self._ledger.saw(partition, record.offset, record.value)
            self._positions[partition] = header.next_offset
