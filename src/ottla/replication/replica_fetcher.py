"""Fetches what leaders have, for the partitions that this broker follows.

One connection a leader, one Fetch in flight on it, for all partitions that are followed there. A
partition is in one of four states:

    fetching ── diverging epoch, offset out of range ──▶ truncating ──▶ fetching
        │
        ├────── any other error ──▶ delayed ── up to `replica.fetch.backoff.ms` ──▶ fetching
        │
        ├────── more than a throttle allows ──▶ delayed
        │
        └────── fenced epoch, failed disk ──▶ out, until the controller tells of another epoch

Whatever becomes of one partition, the others are fetched.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar

from ottla.client.fetch_session import FetchSession, PartitionKey, SessionRequest, forgotten_topics
from ottla.config.broker import BrokerConfig
from ottla.kernel.clock import Clock
from ottla.kernel.eager import Done, begin
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import BrokerId, TopicId
from ottla.kernel.slices import Slices
from ottla.replication.follower import Follower
from ottla.replication.leader_offsets import LeaderOffsets, ask_leader_offsets
from ottla.replication.partition import Partition
from ottla.replication.remote_replica import UNKNOWN_BROKER_EPOCH
from ottla.replication.replication_quota import ReplicationQuota
from ottla.storage.errors import StorageFailure
from ottla.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
    ReplicaState,
)
from ottla.wire.schema import Request, Response

logger = logging.getLogger(__name__)

R = TypeVar("R", bound=Response)

FETCH_VERSION = 17
"""The newest of Kafka 3.9, the last that runs beside ZooKeeper."""

_FIRST_BACKOFF_S = 0.02
"""Doubled with each failure in a row. Followers often hear of an election before the leader does:
to wait for the whole back-off would keep acks=all waiting, too."""

_IS_FETCHED_AGAIN_LATER = (
    # The leader has not heard of its role yet, or this broker not yet of another leader.
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
)


class LeaderConnection(Protocol):
    async def call(self, request: Request, response_class: type[R], version: int) -> R:
        """Raises ConnectionError."""
        ...

    def close(self) -> None: ...


class FetcherContext(NamedTuple):
    """What all fetchers of a broker have in common."""

    own_id: BrokerId
    broker_epoch: Callable[[], int]
    """With which this broker is registered now (KIP-903)."""
    connect: Callable[[BrokerId], Awaitable[LeaderConnection]]
    """To a broker of the cluster. Raises OSError or KafkaError."""
    config: Callable[[], BrokerConfig]
    quota: ReplicationQuota
    """Of what is fetched by replicas that are named in a throttle."""
    clock: Clock


class ReplicaFetchers:
    """Owned by the replica manager. In a crash all of it is lost: the controller tells again whom
    to follow."""

    def __init__(self, context: FetcherContext) -> None:
        self._context = context
        self._fetchers: dict[BrokerId, ReplicaFetcher] = {}
        self._leaders: dict[Partition, BrokerId] = {}

    def follow(self, partition: Partition) -> None:
        """Fetches for the role that the partition has just begun."""
        self.forget(partition)
        follower = partition.follower
        assert follower is not None, f"{partition.topic_partition} is not followed"
        leader_id = self._leaders[partition] = follower.leader_id
        fetcher = self._fetchers.get(leader_id)
        if fetcher is None:
            fetcher = self._fetchers[leader_id] = ReplicaFetcher(leader_id, self._context)
        fetcher.add(partition, follower)

    def forget(self, partition: Partition) -> None:
        leader_id = self._leaders.pop(partition, None)
        if leader_id is not None:
            self._fetchers[leader_id].remove(partition)

    async def close(self) -> None:
        self._leaders.clear()
        for fetcher in self._fetchers.values():
            await fetcher.close()


class _Followed:
    """A partition, for one leader epoch."""

    __slots__ = (
        "asked_offset",
        "failure_count",
        "follower",
        "is_in_sync",
        "key",
        "partition",
    )

    def __init__(self, partition: Partition, follower: Follower) -> None:
        self.partition = partition
        self.follower = follower
        self.key = PartitionKey(partition.topic_id, partition.topic_partition.partition)
        self.asked_offset: int | None = None
        """Where the fetch that the session knows of begins."""
        self.failure_count = 0  # In a row.
        self.is_in_sync = False
        """Whether all is here that its leader had committed, when it last answered."""

    def __str__(self) -> str:
        return str(self.partition.topic_partition)

    @property
    def is_current(self) -> bool:
        return self.partition.follower is self.follower


class ReplicaFetcher:
    """Owned by `ReplicaFetchers`, for one leader. Its task runs while anything is followed there;
    when nothing is, the connection is closed."""

    def __init__(self, leader_id: BrokerId, context: FetcherContext) -> None:
        self.leader_id = leader_id
        self._context = context
        self._session = FetchSession()
        self._broker_epoch = UNKNOWN_BROKER_EPOCH
        """With which the session was last used."""
        self._followed: dict[PartitionKey, _Followed] = {}
        self._task: asyncio.Task[None] | None = None
        self._connection: LeaderConnection | None = None
        self._asking: asyncio.Timeout | None = None
        self._wake = asyncio.Event()
        self._is_reported = False  # That the leader cannot be reached.
        self._failure_count = 0  # In a row.
        self._truncations: set[asyncio.Task[None]] = set()

    def add(self, partition: Partition, follower: Follower) -> None:
        followed = _Followed(partition, follower)
        self._followed[followed.key] = followed
        self._fetch_on(followed)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    def remove(self, partition: Partition) -> None:
        key = PartitionKey(partition.topic_id, partition.topic_partition.partition)
        self._followed.pop(key, None)
        self._session.remove(key)
        self._wake.set()
        if not self._followed:
            # Not at once: it may be followed there again, in another epoch.
            asyncio.get_running_loop().call_soon(self._hang_up_if_idle)

    def _hang_up_if_idle(self) -> None:
        """The leader may have gone without a word: whoever follows it again is not to wait for the
        answer to what it was asked before."""
        if not self._followed and self._asking is not None and not self._asking.expired():
            self._asking.reschedule(asyncio.get_running_loop().time())

    async def close(self) -> None:
        self._followed.clear()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        if self._truncations:  # These are not left halfway.
            await asyncio.wait(self._truncations)

    # The loop

    async def _run(self) -> None:
        try:
            while self._followed:
                self._wake.clear()
                if not self._session:
                    await self._wake.wait()
                    continue
                try:
                    await self._fetch()
                except (OSError, KafkaError) as error:  # A TimeoutError is an OSError.
                    self._disconnect()
                    if self._followed:
                        self._report(error)
                        await self._back_off()
                except Exception:  # A bug of ours: replication goes on all the same.
                    self._disconnect()
                    logger.exception("a fetch from broker %d failed", self.leader_id)
                    await self._back_off()
        finally:
            self._disconnect()
            self._task = None

    def _report(self, error: Exception) -> None:
        """Once, until it can be reached again."""
        if not self._is_reported:
            self._is_reported = True
            logger.warning(
                "broker %d, which leads %d partitions followed here, cannot be fetched from: %s",
                self.leader_id,
                len(self._followed),
                str(error) or "it did not answer in time",
            )

    async def _back_off(self) -> None:
        """Less where something changes: there may be another leader at that address by then."""
        delay_s = self._backoff_s(self._failure_count)
        self._failure_count += 1
        timer = self._context.clock.call_later(delay_s, self._wake.set)
        try:
            await self._wake.wait()
        finally:
            timer.cancel()

    def _backoff_s(self, failure_count: int) -> float:
        most_s = self._context.config().replica_fetch_backoff_ms / 1000
        return min(most_s, _FIRST_BACKOFF_S * (1 << min(failure_count, 16)))

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        self._session.lost()
        if connection is not None:
            connection.close()

    async def _fetch(self) -> None:
        timeout_s = self._context.config().replica_socket_timeout_ms / 1000
        try:
            async with asyncio.timeout(timeout_s) as self._asking:
                if self._connection is None:
                    self._connection = await self._context.connect(self.leader_id)
                connection = self._connection
                self._begin_anew_if_registered_anew()
                named = self._session.request()
                request = self._request(named)
                response = await connection.call(request, FetchResponse, FETCH_VERSION)
        finally:
            self._asking = None
        if self._is_reported:
            self._is_reported = False
            logger.info("broker %d can be fetched from again", self.leader_id)
        self._session.answered(response)
        if not response.error_code:
            self._failure_count = 0
            await self._take(response, connection)
        elif not named.session_epoch:  # It refuses a new session as well: haste gains nothing.
            raise KafkaError(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                f"it refuses to begin a fetch session, with error {response.error_code}",
            )

    def _begin_anew_if_registered_anew(self) -> None:
        """A fetch names what has something new, and the leader believes of the others what it knew
        of this broker's registration of before: of such a partition it would let nobody into the
        ISR until there is something to fetch, which may wait for just that."""
        broker_epoch = self._context.broker_epoch()
        if broker_epoch != self._broker_epoch:
            self._broker_epoch = broker_epoch
            self._session.lost()

    def _request(self, named: SessionRequest) -> FetchRequest:
        config = self._context.config()
        topics: dict[TopicId, FetchTopic] = {}
        for key in named.partitions:
            topic = topics.get(key.topic_id)
            if topic is None:
                topic = topics[key.topic_id] = FetchTopic(topic_id=key.topic_id)
            followed = self._followed[key]
            position = followed.follower.position
            followed.asked_offset = position.offset
            topic.partitions.append(
                FetchPartition(
                    partition=key.partition,
                    current_leader_epoch=position.leader_epoch,
                    fetch_offset=position.offset,
                    last_fetched_epoch=position.last_fetched_epoch,
                    log_start_offset=position.log_start_offset,
                    partition_max_bytes=config.replica_fetch_max_bytes,
                )
            )
        return FetchRequest(
            replica_state=ReplicaState(
                replica_id=self._context.own_id, replica_epoch=self._broker_epoch
            ),
            max_wait_ms=config.replica_fetch_wait_max_ms,
            min_bytes=config.replica_fetch_min_bytes,
            max_bytes=config.replica_fetch_response_max_bytes,
            session_id=named.session_id,
            session_epoch=named.session_epoch,
            topics=list(topics.values()),
            forgotten_topics_data=forgotten_topics(named.forgotten),
        )

    # What a response has

    async def _take(self, response: FetchResponse, connection: LeaderConnection) -> None:
        """Returns when the next fetch may say that the records are here."""
        syncing: list[asyncio.Task[None]] = []
        out_of_range: list[_Followed] = []
        slices = Slices(self._context.clock)
        for topic in response.responses:
            async for data in slices.of(topic.partitions):
                followed = self._followed.get(PartitionKey(topic.topic_id, data.partition_index))
                if (
                    followed is None
                    or not followed.is_current
                    # The role has changed since it was asked for, or the log.
                    or followed.asked_offset != followed.follower.position.offset
                ):
                    continue
                if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    out_of_range.append(followed)
                elif data.error_code:
                    self._refused(followed, data.error_code)
                elif data.diverging_epoch.end_offset >= 0:
                    diverging = data.diverging_epoch
                    self._truncate(
                        followed,
                        partial(followed.follower.truncate, diverging.epoch, diverging.end_offset),
                    )
                else:
                    done = begin(self._append(followed, data))
                    if not isinstance(done, Done):
                        syncing.append(done)
        if syncing:
            await asyncio.wait(syncing)
        for followed in out_of_range:
            await self._start_over(followed, connection)

    async def _append(self, followed: _Followed, data: PartitionData) -> None:
        records = data.records or b""
        assert isinstance(records, bytes | memoryview), "a response that was decoded has no files"
        before = followed.follower.position
        try:
            await followed.follower.append(
                memoryview(records),
                leader_high_watermark=data.high_watermark,
                leader_log_start_offset=data.log_start_offset,
            )
        except Exception as error:
            self._failed(followed, error)
        else:
            followed.failure_count = 0
            position = followed.follower.position
            followed.is_in_sync = position.offset >= data.high_watermark
            if records and self._has_throttle(followed):
                self._context.quota.record(len(records))
            if position != before:
                self._fetch_on(followed)

    def _fetch_on(self, followed: _Followed) -> None:
        if self._followed.get(followed.key) is not followed:
            return
        quota = self._context.quota
        if not followed.is_in_sync and self._has_throttle(followed) and quota.is_exceeded:
            self._session.remove(followed.key)
            self._context.clock.call_later(quota.pause_s, lambda: self._fetch_on(followed))
        else:
            self._session.put(followed.key)
            self._wake.set()

    def _has_throttle(self, followed: _Followed) -> bool:
        quota, log = self._context.quota, followed.follower.log
        return quota.is_limited and quota.throttles(
            log.topic_partition, log.config.follower_replication_throttled_replicas
        )

    def _refused(self, followed: _Followed, error_code: int) -> None:
        """By the leader, for this partition."""
        if error_code == ErrorCode.FENCED_LEADER_EPOCH:
            # Nothing is left to be had in this epoch. The controller tells of the next one.
            logger.info(
                "broker %d has %s in a later leader epoch than %d: waiting to be told of it",
                self.leader_id,
                followed,
                followed.follower.leader_epoch,
            )
            self._drop(followed)
            return
        level = logging.DEBUG if error_code in _IS_FETCHED_AGAIN_LATER else logging.WARNING
        logger.log(
            level,
            "broker %d refuses a fetch of %s with error %d",
            self.leader_id,
            followed,
            error_code,
        )
        self._delay(followed)

    def _failed(self, followed: _Followed, error: Exception) -> None:
        """Here."""
        if isinstance(error, StorageFailure):
            logger.error("%s is not replicated any more: %s", followed, error)
            self._drop(followed)
            return
        if isinstance(error, KafkaError):
            logger.warning("%s could not be replicated: %s", followed, error)
        else:
            logger.error("%s could not be replicated", followed, exc_info=error)
        self._delay(followed)

    def _drop(self, followed: _Followed) -> None:
        if self._followed.get(followed.key) is followed:
            del self._followed[followed.key]
            self._session.remove(followed.key)

    def _delay(self, followed: _Followed) -> None:
        if self._followed.get(followed.key) is followed:
            self._session.remove(followed.key)
            delay_s = self._backoff_s(followed.failure_count)
            followed.failure_count += 1
            self._context.clock.call_later(delay_s, lambda: self._fetch_on(followed))

    # Where the logs part

    def _truncate(
        self, followed: _Followed, truncation: Callable[[], Coroutine[Any, Any, None]]
    ) -> None:
        """Others need not wait for it. It may be cancelled before it has begun."""
        self._session.remove(followed.key)
        task = asyncio.get_running_loop().create_task(self._truncated(followed, truncation))
        self._truncations.add(task)
        task.add_done_callback(self._truncations.discard)

    async def _truncated(
        self, followed: _Followed, truncation: Callable[[], Coroutine[Any, Any, None]]
    ) -> None:
        before = followed.follower.position
        try:
            await truncation()
        except Exception as error:
            self._failed(followed, error)
            return
        if followed.follower.position == before:  # Then the same fetch gets the same answer.
            self._delay(followed)
        else:
            self._fetch_on(followed)

    async def _start_over(self, followed: _Followed, connection: LeaderConnection) -> None:
        """The leader has nothing at the offset that was asked for, and tells what it has."""
        config = self._context.config()
        try:
            async with asyncio.timeout(config.replica_socket_timeout_ms / 1000):
                offsets = await ask_leader_offsets(
                    connection,
                    self._context.own_id,
                    followed.partition.topic_partition,
                    followed.follower.leader_epoch,
                )
        except KafkaError as error:
            self._refused(followed, error.code)
            return
        if followed.is_current:
            self._compare(followed, offsets)

    def _compare(self, followed: _Followed, leader: LeaderOffsets) -> None:
        end_offset = followed.follower.position.offset
        if leader.log_start_offset <= end_offset <= leader.log_end_offset:
            follower = followed.follower
            if follower.position.last_fetched_epoch > follower.leader_epoch:
                # No leader wrote that. No CRC covers the epoch of a batch, nor the checkpoint.
                logger.warning("%s has records of an epoch to come: dropping them", followed)
                truncate = follower.truncate
                last = (follower.leader_epoch, leader.log_end_offset)
                self._truncate(followed, partial(truncate, *last))
            else:
                self._delay(followed)  # The leader has caught up meanwhile: nothing is dropped.
            return
        logger.warning(
            "%s ends at %d here, and its leader, broker %d, has %d to %d: starting over from there",
            followed,
            end_offset,
            self.leader_id,
            leader.log_start_offset,
            leader.log_end_offset,
        )
        self._truncate(
            followed,
            partial(followed.follower.start_over, leader.log_start_offset, leader.log_end_offset),
        )
