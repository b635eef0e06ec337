"""Fetch: records, as they lie in the segment files, with long polling.

v4 brought isolation levels, v5 the log's start, v7 sessions, v9 leader epochs, v11 racks,
v12 flexible fields and divergence by epoch, v13 topic ids instead of names, v15 the replica's
state as a tagged field, v16 the endpoints of new leaders, v17 and v18 are for followers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from ottla.kernel.disk import FileSlice
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.slices import Slices
from ottla.replication.partition import NO_EPOCH, Partition
from ottla.server.context import RequestContext
from ottla.server.fetch_sessions.fetched_partition import FetchedPartition, TopicKey
from ottla.server.fetch_sessions.session import FetchSession
from ottla.server.services import Services
from ottla.storage.batch_scan import Cold
from ottla.wire.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
)

READ_COMMITTED = 1
TOPIC_IDS_SINCE = 13

# How often a fetch warms what it finds cold before it answers without that partition.
_WARM_TRIES = 4

AT_ONCE_MAX = 128
"""So many partitions are looked at without a pause: a millisecond."""

_NO_RECORDS = b""

_NOT_FOUND = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


def handle(
    services: Services, request: FetchRequest, context: RequestContext
) -> FetchResponse | Awaitable[FetchResponse]:
    uses_topic_ids = context.api_version >= TOPIC_IDS_SINCE
    try:
        session, is_incremental = services.fetch_sessions.begin(request, uses_topic_ids)
    except KafkaError as error:
        return FetchResponse(error_code=error.code)
    fetch = Fetch(services, request, session, is_incremental)
    if fetch.candidate_count > AT_ONCE_MAX:
        return fetch.in_slices()
    fetch.collect()
    if fetch.is_ready(request.max_wait_ms <= 0):
        return fetch.response()
    return fetch.wait(Slices(services.clock))


async def handle_large(
    services: Services, request: FetchRequest, context: RequestContext
) -> FetchResponse:
    uses_topic_ids = context.api_version >= TOPIC_IDS_SINCE
    try:
        session, is_incremental = await services.fetch_sessions.begin_large(
            request, uses_topic_ids, Slices(services.clock)
        )
    except KafkaError as error:
        return FetchResponse(error_code=error.code)
    return await Fetch(services, request, session, is_incremental).in_slices()


class Fetch:
    """One request on its way to an answer."""

    __slots__ = (
        "_byte_count",
        "_clean",
        "_cold",
        "_has_error",
        "_is_behind",
        "_is_committed_only",
        "_is_incremental",
        "_max_bytes",
        "_request",
        "_results",
        "_services",
        "_session",
    )

    def __init__(
        self,
        services: Services,
        request: FetchRequest,
        session: FetchSession,
        is_incremental: bool,
    ) -> None:
        self._services = services
        self._request = request
        self._session = session
        self._is_incremental = is_incremental
        self._is_committed_only = request.isolation_level == READ_COMMITTED
        self._max_bytes = min(request.max_bytes, services.config.fetch_max_bytes)

    @property
    def candidate_count(self) -> int:
        """Of partitions to look at."""
        return self._session.candidate_count(self._is_incremental)

    async def in_slices(self) -> FetchResponse:
        """As `handle` does it, for many partitions."""
        slices = Slices(self._services.clock)
        has_more = await self._collect_in_slices(slices)
        if self.is_ready(self._request.max_wait_ms <= 0):
            return await self._response_in_slices()
        return await self.wait(slices, has_more=has_more)

    def collect(self) -> None:
        """Reads what there is. Can be done again: it forgets what it collected before."""
        for fetched in self._begin_to_collect():
            self._look_at(fetched)

    async def _collect_in_slices(self, slices: Slices) -> bool:
        """Whether more came meanwhile, maybe to partitions that were looked at before; of those
        that are watched."""
        with self._session.listening(self._services.clock) as first_bytes:
            async for fetched in slices.of(self._begin_to_collect()):
                self._look_at(fetched)
            return first_bytes.is_over

    def _begin_to_collect(self) -> list[FetchedPartition]:
        self._results: list[tuple[FetchedPartition, PartitionData]] = []
        self._byte_count = 0
        self._has_error = False
        self._is_behind = False  # There is more in a next segment: why wait for more to come?
        self._cold: list[tuple[Partition, Cold]] = []
        self._clean: list[FetchedPartition] = []  # read to their end
        return self._session.candidates(self._is_incremental)

    def _look_at(self, fetched: FetchedPartition) -> None:
        data = self._read(fetched)
        if data is not None:
            self._results.append((fetched, data))

    def _read(self, fetched: FetchedPartition) -> PartitionData | None:
        """None where an incremental fetch need not hear of the partition."""
        session = self._session
        try:
            partition = fetched.partition or session.find(fetched, self._lookup)
            if fetched.current_leader_epoch >= 0:
                partition.check_leader_epoch(fetched.current_leader_epoch)
            if fetched.last_fetched_epoch >= 0:
                diverging = _divergence(partition, fetched)
                if diverging is not None:
                    return diverging
            left = min(fetched.max_bytes, self._max_bytes - self._byte_count)
            records: FileSlice | Cold | None = partition.read(
                fetched.fetch_offset,
                left if left > 0 else 0,
                is_committed_only=self._is_committed_only,
                at_least_one=self._byte_count == 0,
            )
            aborted: list[AbortedTransaction] | None = None
            if self._is_committed_only:
                records, aborted = self._leave_out(partition, fetched, records)
                if (
                    records is None
                    and left > 0
                    and fetched.fetch_offset < partition.last_stable_offset
                ):
                    aborted = None  # A batch does not fit: then Kafka tells nothing of any.
        except KafkaError as error:
            self._has_error = True
            return self._error(fetched, error)
        if isinstance(records, Cold):
            self._cold.append((partition, records))
            records = None
        high_watermark = partition.high_watermark
        log_start_offset = partition.log.log_start_offset
        if records is not None:
            if self._is_incremental:
                session.served(fetched)
            self._byte_count += len(records)
            if self._byte_count < self._request.min_bytes:
                self._is_behind |= partition.is_behind(fetched.fetch_offset)
        else:
            if fetched.fetch_offset >= partition.read_end(self._is_committed_only):
                self._clean.append(fetched)
            if self._is_incremental and fetched.is_told(high_watermark, log_start_offset):
                return None
        return PartitionData(
            partition_index=fetched.index,
            high_watermark=high_watermark,
            last_stable_offset=partition.last_stable_offset,
            log_start_offset=log_start_offset,
            aborted_transactions=aborted,
            records=_NO_RECORDS if records is None else records,
        )

    def _leave_out(
        self,
        partition: Partition,
        fetched: FetchedPartition,
        records: FileSlice | Cold | None,
    ) -> tuple[FileSlice | Cold | None, list[AbortedTransaction]]:
        """What a reader of committed records needs to pass over the others."""
        fetched.note_stable(partition)
        if not isinstance(records, FileSlice):
            return records, []
        aborted = partition.aborted_transactions(fetched.fetch_offset, records)
        if isinstance(aborted, Cold):
            return aborted, []
        return records, [
            AbortedTransaction(producer_id=each.producer_id, first_offset=each.first_offset)
            for each in aborted
        ]

    def _error(self, fetched: FetchedPartition, error: KafkaError) -> PartitionData:
        data = PartitionData(
            partition_index=fetched.index,
            error_code=error.code,
            high_watermark=-1,
            aborted_transactions=[] if error.code in _NOT_FOUND else None,
            records=_NO_RECORDS,
        )
        partition = fetched.partition
        if partition is not None and error.code is ErrorCode.FENCED_LEADER_EPOCH:
            data.current_leader = LeaderIdAndEpoch(
                leader_id=self._services.broker_id, leader_epoch=partition.leader_epoch
            )
        return data

    def is_ready(self, is_time_over: bool) -> bool:
        if self._cold:
            return False
        return (
            is_time_over
            or self._has_error
            or self._byte_count >= self._request.min_bytes
            or not self._session.partitions
            or self._is_behind
        )

    def response(self) -> FetchResponse:
        topics: list[FetchableTopicResponse] = []
        for fetched, data in self._results:
            _add_to(topics, fetched, data)
        for fetched in self._clean:
            self._session.read_to_end(fetched)
        return FetchResponse(session_id=self._session.id, responses=topics)

    async def _response_in_slices(self) -> FetchResponse:
        slices = Slices(self._services.clock)
        topics: list[FetchableTopicResponse] = []
        async for fetched, data in slices.of(self._results):
            _add_to(topics, fetched, data)
        async for fetched in slices.of(self._clean):
            partition = fetched.partition
            # Still: it is some time since it was looked at. If it is gone, the next one tells.
            if partition is not None and (
                fetched.fetch_offset >= partition.read_end(self._is_committed_only)
            ):
                self._session.read_to_end(fetched)
        return FetchResponse(session_id=self._session.id, responses=topics)

    async def wait(self, slices: Slices, *, has_more: bool = False) -> FetchResponse:
        """In the slices in which it has collected, if it has done so in any."""
        clock = self._services.clock
        deadline_s = clock.monotonic_s() + self._request.max_wait_ms / 1000
        session = self._session
        warm_tries = 0
        try:
            # What came before a partition was watched would be overlooked.
            has_more |= await session.begin_waiting(self._lookup, slices)
            while True:
                if self._cold:
                    await self._warm()
                    warm_tries += 1
                elif not has_more:
                    await session.wait_for_bytes(
                        clock,
                        deadline_s - clock.monotonic_s(),
                        self._request.min_bytes - self._byte_count,
                        is_committed_only=self._is_committed_only,
                    )
                has_more = False
                if self.candidate_count > AT_ONCE_MAX:
                    has_more = await self._collect_in_slices(Slices(clock))
                else:
                    self.collect()
                if warm_tries == _WARM_TRIES:
                    self._cold.clear()
                if self.is_ready(clock.monotonic_s() >= deadline_s):
                    return await self._response_in_slices()
        finally:
            session.end_waiting()

    def _lookup(self, topic: TopicKey, index: int) -> Partition:
        if isinstance(topic, str):
            return self._services.replicas.partition(topic, index)
        return self._services.replicas.partition_by_id(topic, index)

    async def _warm(self) -> None:
        """Brings what was cold into the page cache, off the loop."""
        submit = self._services.workers.submit
        failures = await asyncio.gather(
            *(submit(cold.warm) for _, cold in self._cold), return_exceptions=True
        )
        for (partition, _), failure in zip(self._cold, failures, strict=True):
            if isinstance(failure, OSError):
                partition.log.read_failed(failure)  # The client hears of it when it is read anew.


def _add_to(
    topics: list[FetchableTopicResponse], fetched: FetchedPartition, data: PartitionData
) -> None:
    key = fetched.topic
    last = topics[-1] if topics else None
    if isinstance(key, str):
        if last is None or last.topic != key:
            topics.append(FetchableTopicResponse(topic=key))
    elif last is None or last.topic_id != key:
        topics.append(FetchableTopicResponse(topic_id=key))
    topics[-1].partitions.append(data)
    fetched.tell(data.high_watermark, data.log_start_offset)


def _divergence(partition: Partition, fetched: FetchedPartition) -> PartitionData | None:
    """Where the reader's log and ours part, if they do (KIP-595): its last epoch ended here
    before the offset that it asks for."""
    epoch, end_offset = partition.log.end_offset_for_epoch(fetched.last_fetched_epoch)
    if epoch == NO_EPOCH:
        raise KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{partition.topic_partition} knows nothing of epoch {fetched.last_fetched_epoch}",
        )
    if epoch == fetched.last_fetched_epoch and end_offset >= fetched.fetch_offset:
        return None
    return PartitionData(
        partition_index=fetched.index,
        high_watermark=partition.high_watermark,
        last_stable_offset=partition.last_stable_offset,
        log_start_offset=partition.log.log_start_offset,
        diverging_epoch=EpochEndOffset(epoch=epoch, end_offset=end_offset),
        aborted_transactions=None,
        records=_NO_RECORDS,
    )
