"""One range of offsets of one partition, as columns.

While one response is decoded, the next fetch is on its way: where it must begin is in the batch
headers, which take no time to read. A response of a few megabytes waits in the buffers of the
socket meanwhile, so no thread is needed for that.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from ottla.client.blocking import ClientError, GaveUp
from ottla.client.blocking_cluster import (
    EARLIEST,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    BlockingCluster,
    InFlight,
)
from ottla.client.blocking_topics import describe_configs
from ottla.client.cluster import Node
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import NO_TOPIC_ID, TopicId, TopicPartition, topic_id_text
from ottla.pipeline.rows.columns import COLUMNS
from ottla.pipeline.rows.decode import AbortedTransactions, decode_batches
from ottla.records.batch import iter_headers
from ottla.records.errors import CorruptRecord
from ottla.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)

FETCH_BYTES = 4 * 1024 * 1024
"""As much as the buffers of a socket grow to hold by default on Linux (net.ipv4.tcp_rmem)."""

GAP_S = 3.0

_WAIT_MS = 500


class DataLoss(KafkaError):
    """Records that were to be read are not there any more."""


class _Sent(NamedTuple):
    offset: int
    in_flight: InFlight[FetchResponse]


class _Nothing(NamedTuple):
    """What a broker sends, answer after answer, where there should be something."""

    since_s: float


class _Content(NamedTuple):
    records: memoryview
    aborted: AbortedTransactions | None
    next_offset: int


class Fetcher:
    """Made for one range, iterated once. A broker that goes away is waited for as long as the
    cluster's client waits, and the reading goes on where it was.

    A topic that was deleted and made anew under its name is not the topic: with a `topic_id` that
    is INCONSISTENT_TOPIC_ID. Offsets that retention has deleted are DataLoss, or left out with
    `is_loss_allowed`.

    With a `rack_id` the leader may name a follower that is nearer (KIP-392), and records are read
    from there. Whatever goes wrong with that, the leader is read from to the end of the range."""

    def __init__(
        self,
        cluster: BlockingCluster,
        topic_partition: TopicPartition,
        topic_id: TopicId,
        start_offset: int,
        end_offset: int,
        *,
        isolation_level: int = READ_COMMITTED,
        columns: Sequence[str] = COLUMNS,
        max_bytes: int = FETCH_BYTES,
        is_loss_allowed: bool = False,
        rack_id: str = "",
    ) -> None:
        self._cluster = cluster
        self._topic_partition = topic_partition
        self._topic_id = topic_id
        self._end_offset = end_offset
        self._isolation_level = isolation_level
        self._columns = columns
        self._max_bytes = max_bytes
        self._is_loss_allowed = is_loss_allowed
        self._rack_id = rack_id
        self._follower: Node | None = None
        """That is read from instead of the leader."""
        self._sent: _Sent | None = None
        self._nothing: _Nothing | None = None
        self.offset = start_offset
        """Where reading goes on; at the end of the range when all was read."""

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        while self.offset < self._end_offset:
            content = self._next_content()
            if content is None:
                continue
            if content.next_offset < self._end_offset:
                self._send_ahead(content.next_offset)
            yield from self._decoded(content)

    def _decoded(self, content: _Content) -> Iterator[pa.RecordBatch]:
        rest = content.records
        if not len(rest):
            self.offset = content.next_offset
        while self.offset < content.next_offset:
            decoded = decode_batches(
                rest,
                topic=self._topic_partition.topic,
                partition=self._topic_partition.partition,
                columns=self._columns,
                start_offset=self.offset,
                end_offset=self._end_offset,
                aborted=content.aborted,
            )
            assert decoded.next_offset > self.offset, "headers promised more than was decoded"
            self.offset = decoded.next_offset
            rest = rest[decoded.consumed_bytes :]
            if decoded.batch.num_rows:
                yield decoded.batch

    def _next_content(self) -> _Content | None:
        """None where the offset was moved instead: beyond what is lost."""
        try:
            return self._cluster.retrying(f"reading {self._topic_partition}", self._fetch)
        except DataLoss:
            raise
        except KafkaError as error:
            if error.code != ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
            self._skip_lost(error)
        except GaveUp as error:
            if error.code != ErrorCode.OFFSET_NOT_AVAILABLE:
                raise
            self._end_short(error)
        return None

    def _fetch(self) -> _Content:
        """One step of `retrying`."""
        while True:
            is_at_follower = self._follower is not None
            try:
                content = self._fetch_once()
            except (ClientError, KafkaError):
                if not is_at_follower:
                    raise
                self._stay_with_leader()
            else:
                if content is not None:
                    return content

    def _stay_with_leader(self) -> None:
        self._follower = self._sent = self._nothing = None
        self._rack_id = ""

    def _fetch_once(self) -> _Content | None:
        """What was sent ahead, else anew. None where the answer names a follower to read from."""
        sent, self._sent = self._sent, None
        nothing, self._nothing = self._nothing, None
        if sent is None or sent.offset != self.offset:
            sent = self._send(self.offset)
        response = sent.in_flight.wait()
        if response.error_code:
            raise KafkaError(ErrorCode(response.error_code), f"fetching {self._topic_partition}")
        for topic in response.responses:
            for partition in topic.partitions:
                if partition.preferred_read_replica >= 0 and self._goes_to(partition):
                    return None
                return self._content(partition, nothing)
        if response.throttle_time_ms:
            # A client that is beyond its quota gets nothing until then (KIP-219).
            raise KafkaError(
                ErrorCode.THROTTLING_QUOTA_EXCEEDED,
                f"the quota of this client holds back {self._topic_partition}",
            )
        raise CorruptRecord(f"a fetch of {self._topic_partition} was answered with nothing")

    def _goes_to(self, partition: PartitionData) -> bool:
        """The follower that the leader names. One that is not known is done without."""
        if not self._rack_id or self._follower is not None:
            return False
        self._follower = self._cluster.node(partition.preferred_read_replica)
        if self._follower is None:
            self._stay_with_leader()
        return True

    def _content(self, partition: PartitionData, nothing: _Nothing | None) -> _Content:
        """`nothing` is what came before, if that was so."""
        if partition.error_code:
            raise KafkaError(ErrorCode(partition.error_code), f"fetching {self._topic_partition}")
        records = memoryview(b"")
        if isinstance(partition.records, bytes | memoryview):
            records = memoryview(partition.records)
        next_offset = self.offset
        for _, header in iter_headers(records, allow_partial=True):
            next_offset = max(next_offset, header.next_offset)
            if header.base_offset >= self._end_offset:
                break
        if next_offset == self.offset:
            if len(records):
                raise CorruptRecord(
                    f"{len(records)} bytes came of {self._topic_partition} at offset "
                    f"{self.offset}, and no record at or after it in them"
                )
            if self._readable_end(partition) >= self._end_offset:
                self._nothing = nothing or _Nothing(time.monotonic())
                if self._is_compacted_away(self._nothing):
                    return _Content(records, None, self._end_offset)
            raise KafkaError(
                ErrorCode.OFFSET_NOT_AVAILABLE,
                f"{self._topic_partition} has nothing at offset {self.offset}; its high watermark "
                f"is {partition.high_watermark}, reading should end at {self._end_offset}",
            )
        aborted = None
        if self._isolation_level != READ_UNCOMMITTED:
            listed = partition.aborted_transactions or []
            aborted = AbortedTransactions((one.producer_id, one.first_offset) for one in listed)
        return _Content(records, aborted, min(next_offset, self._end_offset))

    def _is_compacted_away(self, nothing: _Nothing) -> bool:
        """Whether compaction has removed all that is left of the range. A broker also sends nothing
        when it could not read in time: it is believed when it goes on for a while, and when the
        topic is one that is compacted."""
        if time.monotonic() - nothing.since_s < GAP_S:
            return False
        topic = self._topic_partition.topic
        (configs,) = describe_configs(self._cluster, [topic]).values()
        return "compact" in (configs["cleanup.policy"].value or "")

    def _readable_end(self, partition: PartitionData) -> int:
        """Where the records end that the broker would have sent, if there were any."""
        is_committed = self._isolation_level != READ_UNCOMMITTED
        if is_committed and partition.last_stable_offset >= 0:
            return partition.last_stable_offset
        return partition.high_watermark

    def _send_ahead(self, offset: int) -> None:
        try:
            self._sent = self._send(offset)
        except (ClientError, KafkaError):
            self._sent = None  # whatever it is, asking again in its turn shows it

    def _send(self, offset: int) -> _Sent:
        topic, leader, leader_epoch = self._cluster.leader(self._topic_partition)
        if NO_TOPIC_ID not in (self._topic_id, topic.topic_id) and topic.topic_id != self._topic_id:
            raise KafkaError(
                ErrorCode.INCONSISTENT_TOPIC_ID,
                f"topic {topic.name} was deleted and made anew: its id was "
                f"{topic_id_text(self._topic_id)} and is {topic_id_text(topic.topic_id)}",
            )
        partition = FetchPartition(
            partition=self._topic_partition.partition,
            current_leader_epoch=leader_epoch,
            fetch_offset=offset,
            partition_max_bytes=self._max_bytes,
        )
        request = FetchRequest(
            max_wait_ms=_WAIT_MS,
            min_bytes=1,
            max_bytes=self._max_bytes,
            isolation_level=self._isolation_level,
            topics=[FetchTopic(topic=topic.name, topic_id=topic.topic_id, partitions=[partition])],
            rack_id=self._rack_id,
        )
        has_id = topic.topic_id != NO_TOPIC_ID
        version_max = None if has_id else _NAMES_UP_TO
        return _Sent(
            offset,
            self._cluster.begin(
                request, FetchResponse, node=self._follower or leader, version_max=version_max
            ),
        )

    def _skip_lost(self, error: KafkaError) -> None:
        where = self._topic_partition
        (found,) = self._cluster.list_offsets({where: EARLIEST}).values()
        if found.offset <= self.offset:
            self._end_short(error)
            return
        lost_end = min(found.offset, self._end_offset)
        if not self._is_loss_allowed:
            raise DataLoss(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offsets {self.offset} to {lost_end - 1} of {where} are gone: its log starts at "
                f"{found.offset} (retention has deleted what was before)",
            ) from error
        self.offset = lost_end

    def _end_short(self, error: Exception) -> None:
        """The log ends before the range does: a leader was elected that did not have it all."""
        if not self._is_loss_allowed:
            raise DataLoss(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self._topic_partition} ends at offset {self.offset}, it had records up to "
                f"{self._end_offset - 1} before: {error}",
            ) from error
        self.offset = self._end_offset


_NAMES_UP_TO = 12
"""The last version of Fetch in which topics are named."""
