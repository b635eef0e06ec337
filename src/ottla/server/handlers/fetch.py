"""Fetch: records, as they lie in the segment files, with long polling.

v4 brought isolation levels, v5 the log's start, v7 sessions, v9 leader epochs, v11 racks and
consumers that read from followers, v12 flexible fields and divergence by epoch, v13 topic ids
instead of names, v15 the replica's state as a tagged field, v16 the endpoints of new leaders, v17
and v18 are for followers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from ottla.kernel.disk import FileSlice
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.slices import Slices
from ottla.replication.partition import NO_EPOCH, Partition
from ottla.replication.replica_selector import STAY, selector_of
from ottla.server.context import RequestContext
from ottla.server.fetch_sessions.fetched_partition import FetchedPartition, TopicKey
from ottla.server.fetch_sessions.session import FetchSession
from ottla.server.fetching_replica import FetchingReplica, has_throttle
from ottla.server.leader_hints import LeaderHints
from ottla.server.replica_requests import check_replica_listener
from ottla.server.services import Services
from ottla.storage.batch_scan import Cold
from ottla.wire.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)

READ_COMMITTED = 1
FOLLOWERS_READ_SINCE = 11
TOPIC_IDS_SINCE = 13

# How often a fetch warms what it finds cold before it answers without that partition.
_WARM_TRIES = 4

AT_ONCE_MAX = 128
"""So many partitions are looked at without a pause: a millisecond."""

REPLICA_NEWS_S = 0.01
"""A follower hears of another high watermark after this long, if no records come before."""

_NO_RECORDS = b""

_NOT_FOUND = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


def handle(
    services: Services, request: FetchRequest, context: RequestContext
) -> FetchResponse | Awaitable[FetchResponse]:
    uses_topic_ids = context.api_version >= TOPIC_IDS_SINCE
    try:
        _check_replica(services, request, context)
        session, is_incremental = services.fetch_sessions.begin(request, uses_topic_ids)
    except KafkaError as error:
        return FetchResponse(error_code=error.code)
    fetch = Fetch(services, request, context, session, is_incremental)
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
        _check_replica(services, request, context)
        session, is_incremental = await services.fetch_sessions.begin_large(
            request, uses_topic_ids, Slices(services.clock)
        )
    except KafkaError as error:
        return FetchResponse(error_code=error.code)
    return await Fetch(services, request, context, session, is_incremental).in_slices()


def _check_replica(services: Services, request: FetchRequest, context: RequestContext) -> None:
    """What a replica asks for moves the high watermark."""
    replica = FetchingReplica.of(request)
    if replica is not None:
        check_replica_listener(services, replica.broker_id, context)


class Fetch:
    """One request on its way to an answer."""

    __slots__ = (
        "_byte_count",
        "_checks_role",
        "_clean",
        "_cold",
        "_hints",
        "_is_behind",
        "_is_committed_only",
        "_is_incremental",
        "_is_of_leader_only",
        "_is_urgent",
        "_listener_name",
        "_max_bytes",
        "_replica",
        "_request",
        "_results",
        "_services",
        "_session",
        "_throttled_byte_count",
    )

    def __init__(
        self,
        services: Services,
        request: FetchRequest,
        context: RequestContext,
        session: FetchSession,
        is_incremental: bool,
    ) -> None:
        self._services = services
        self._listener_name = context.listener_name
        self._request = request
        self._session = session
        self._is_incremental = is_incremental
        self._replica = FetchingReplica.of(request)
        self._is_committed_only = (
            request.isolation_level == READ_COMMITTED and self._replica is None
        )
        self._max_bytes = min(request.max_bytes, services.config.fetch_max_bytes)
        self._is_of_leader_only = (
            self._replica is not None or context.api_version < FOLLOWERS_READ_SINCE
        )
        self._checks_role = self._is_of_leader_only or bool(request.rack_id)

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
        self._throttled_byte_count = 0
        self._is_urgent = False
        self._is_behind = False  # There is more in a next segment: why wait for more to come?
        self._hints: LeaderHints | None = None
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
            if self._checks_role:
                elsewhere = self._check_role(partition, fetched)
                if elsewhere is not None:
                    return elsewhere
            if fetched.last_fetched_epoch >= 0:
                diverging = _divergence(partition, fetched)
                if diverging is not None:
                    self._is_urgent = True
                    return diverging
            left = min(fetched.max_bytes, self._max_bytes - self._byte_count)
            records: FileSlice | Cold | None
            if self._replica is None:
                records = partition.read(
                    fetched.fetch_offset,
                    left if left > 0 else 0,
                    is_committed_only=self._is_committed_only,
                    at_least_one=self._byte_count == 0,
                )
            else:
                records = self._read_for(self._replica, partition, fetched, left if left > 0 else 0)
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
            self._is_urgent = True
            return self._error(fetched, error)
        if isinstance(records, Cold):
            self._cold.append((partition, records))
            records = None
        high_watermark = partition.high_watermark
        log_start_offset = partition.log.log_start_offset
        if records is not None:
            self._byte_count += len(records)
            if self._byte_count < self._request.min_bytes:
                self._is_behind |= partition.is_behind(fetched.fetch_offset)
        else:
            if fetched.fetch_offset >= self._read_end(partition):
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

    def _read_for(
        self,
        replica: FetchingReplica,
        partition: Partition,
        fetched: FetchedPartition,
        max_bytes: int,
    ) -> FileSlice | Cold | None:
        quota = self._services.replicas.leader_quota
        records = replica.read(
            partition,
            fetched,
            self._session,
            max_bytes,
            at_least_one=self._byte_count == 0,
            quota=quota,
        )
        if isinstance(records, FileSlice) and has_throttle(partition.leader, quota):
            self._throttled_byte_count += len(records)
        return records

    def _check_role(self, partition: Partition, fetched: FetchedPartition) -> PartitionData | None:
        """Raises KafkaError where only a leader may answer, and this broker follows. What is not
        None sends the consumer to a follower that is nearer to it (KIP-392)."""
        if self._is_of_leader_only:
            partition.leader  # noqa: B018  # Raises NOT_LEADER_OR_FOLLOWER.
            return None
        services = self._services
        selector = selector_of(
            services.config.replica_selector_class,
            services.image,
            self._listener_name,
            self._request.rack_id,
        )
        if selector is None or not partition.is_led:
            return None
        preferred_read_replica = selector.select(partition.leader, fetched.fetch_offset)
        if preferred_read_replica == STAY:
            return None
        self._is_urgent = True
        return PartitionData(
            partition_index=fetched.index,
            high_watermark=partition.high_watermark,
            last_stable_offset=partition.last_stable_offset,
            log_start_offset=partition.log.log_start_offset,
            aborted_transactions=None,
            preferred_read_replica=preferred_read_replica,
            records=_NO_RECORDS,
        )

    def _read_end(self, partition: Partition) -> int:
        if self._replica is None:
            return partition.read_end(self._is_committed_only)
        return partition.leader.end_offset

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
        if error.code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH):
            services, topic = self._services, fetched.topic
            if self._hints is None:
                self._hints = LeaderHints(services.image, services.replicas, self._listener_name)
            name = topic if isinstance(topic, str) else services.replicas.topic_name(topic)
            hint = self._hints.leader_of(name or "", fetched.index)
            if hint is not None:
                data.current_leader = LeaderIdAndEpoch(**hint._asdict())
        return data

    def is_ready(self, is_time_over: bool) -> bool:
        if self._cold:
            return False
        return (
            is_time_over
            or self._is_urgent
            or self._byte_count >= self._request.min_bytes
            or not self._session.partitions
            or self._is_behind
        )

    def response(self) -> FetchResponse:
        topics: list[FetchableTopicResponse] = []
        for fetched, data in self._results:
            self._add_to(topics, fetched, data)
        for fetched in self._clean:
            self._session.read_to_end(fetched)
        return self._answer(topics)

    async def _response_in_slices(self) -> FetchResponse:
        slices = Slices(self._services.clock)
        topics: list[FetchableTopicResponse] = []
        async for fetched, data in slices.of(self._results):
            self._add_to(topics, fetched, data)
        async for fetched in slices.of(self._clean):
            partition = fetched.partition
            # Still: it is some time since it was looked at. If it is gone, the next one tells.
            if partition is not None and (fetched.fetch_offset >= self._read_end(partition)):
                self._session.read_to_end(fetched)
        return self._answer(topics)

    def _answer(self, topics: list[FetchableTopicResponse]) -> FetchResponse:
        if self._replica is not None:
            self._services.replicas.leader_quota.record(self._throttled_byte_count)
        response = FetchResponse(session_id=self._session.id, responses=topics)
        if self._hints is not None:
            response.node_endpoints = [NodeEndpoint(**node._asdict()) for node in self._hints.nodes]
        return response

    def _add_to(
        self, topics: list[FetchableTopicResponse], fetched: FetchedPartition, data: PartitionData
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
        # A session's first fetch, which tells of all, moves none.
        if self._is_incremental and data.records:
            self._session.served(fetched)

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
                if self._has_news_for_replica:
                    deadline_s = min(deadline_s, clock.monotonic_s() + REPLICA_NEWS_S)
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

    @property
    def _has_news_for_replica(self) -> bool:
        """Another high watermark or start of the log, and no records. It goes out with the next
        ones, which are often on their way; but is not held back for long, as readers of the
        follower wait for it."""
        return self._replica is not None and self._is_incremental and bool(self._results)

    def _lookup(self, topic: TopicKey, index: int) -> Partition:
        if isinstance(topic, str):
            return self._services.replicas.replica(topic, index)
        return self._services.replicas.replica_by_id(topic, index)

    async def _warm(self) -> None:
        """Brings what was cold into the page cache, off the loop."""
        submit = self._services.workers.submit
        failures = await asyncio.gather(
            *(submit(cold.warm) for _, cold in self._cold), return_exceptions=True
        )
        for (partition, _), failure in zip(self._cold, failures, strict=True):
            if isinstance(failure, OSError):
                partition.log.read_failed(failure)  # The client hears of it when it is read anew.


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
