"""Writes the markers that end a transaction into the partitions that it wrote to, on whichever
broker leads them.

The transaction coordinator asks for them when it has decided (`write`). Coordinators of other
brokers ask for those that this broker leads, by WriteTxnMarkers, and so does an administrator who
ends a transaction that nobody else ends (`begin`, `settle`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from ottla.coordinators.groups.group_coordinator import GroupCoordinator
from ottla.coordinators.transactions.markers import TransactionMarkers
from ottla.kernel.clock import Clock
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import BrokerId, TopicPartition
from ottla.kernel.internal_topics import CONSUMER_OFFSETS
from ottla.kernel.slices import Slices
from ottla.membership.peers import Peers
from ottla.metadata.image import NO_LEADER, ClusterImage
from ottla.replication.leader import Marker
from ottla.replication.replica_manager import ReplicaManager
from ottla.storage.pending_write import Appended

if TYPE_CHECKING:
    from ottla.server.remote_markers import RemoteMarkers

logger = logging.getLogger(__name__)

_FIRST_PAUSE_S = 0.02
_LONGEST_PAUSE_S = 1.0

Begun = ErrorCode | asyncio.Future[Appended]
"""A marker on its way: what became of it, or what is to be waited for."""


class TransactionMarkerWriter:
    """Owned by the broker. What it has not written when the broker dies is asked for again by the
    coordinator that loads the transaction: a marker that comes twice changes nothing."""

    def __init__(
        self,
        own_id: BrokerId,
        image: ClusterImage,
        replicas: ReplicaManager,
        groups: GroupCoordinator,
        peers: Peers,
        clock: Clock,
        *,
        heard_of_all_topics: Callable[[], Awaitable[None]],
    ) -> None:
        """`heard_of_all_topics` waits until what the picture does not show is gone."""
        self._own_id = own_id
        self._image = image
        self._replicas = replicas
        self._groups = groups
        self._peers = peers
        self._clock = clock
        self._heard_of_all_topics = heard_of_all_topics
        self._remote: RemoteMarkers | None = None

    # Into partitions that this broker leads

    def begin(self, at: TopicPartition, marker: Marker) -> Begun:
        """Gives it its place in one partition, or says why not. It is in effect when it is
        committed."""

        def on_placed() -> None:
            # At once: what a group commits after it belongs to the next transaction.
            if at.topic == CONSUMER_OFFSETS:
                self._groups.transaction_ended(at.partition, marker.producer_id, marker.is_commit)

        try:
            leader = self._replicas.partition(at.topic, at.partition).leader
            appended = leader.append_marker(**marker._asdict(), on_placed=on_placed)
        except KafkaError as error:
            logger.info("the marker for %s is refused: %s", at, error)
            return error.code
        if isinstance(appended, Appended):
            return ErrorCode.NONE
        appended.add_done_callback(_ignore_error)
        return appended

    async def settle(
        self, markers: Sequence[Begun], *, timeout_s: float | None = None
    ) -> list[ErrorCode]:
        """What became of each, when all are committed, or after so long."""
        waiting = [begun for begun in markers if isinstance(begun, asyncio.Future)]
        if waiting:
            await asyncio.wait(waiting, timeout=timeout_s)
        return [_outcome(begun) for begun in markers]

    # Of transactions that this broker coordinates

    async def write(self, markers: TransactionMarkers) -> None:
        """Into all partitions; tries until each has it, is gone, or has heard of a newer
        coordinator or epoch. Partitions that are offline keep a transaction waiting, as in
        Kafka: ending it without them could show half of it."""
        marker = Marker(
            markers.producer_id,
            markers.producer_epoch,
            markers.is_commit,
            markers.coordinator_epoch,
            markers.transaction_version,
        )
        await self._write(marker, sorted(markers.partitions))  # So that a simulation repeats.

    async def _write(self, marker: Marker, partitions: list[TopicPartition]) -> None:
        """By leader: no broker waits for another, and one that does not answer delays none."""
        pause_s = _FIRST_PAUSE_S
        while True:
            groups = await self._by_leader(partitions)
            if len(groups) > 1:
                await self._write_groups(marker, groups.values())
                return
            partitions = [
                at
                for leader_id, group in groups.items()
                for at, code in (await self._try(leader_id, marker, group)).items()
                if not _is_over(at, code)
            ]
            if not partitions:
                return
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)

    async def _write_groups(self, marker: Marker, groups: Iterable[list[TopicPartition]]) -> None:
        loop = asyncio.get_running_loop()
        tasks = [loop.create_task(self._write(marker, group)) for group in groups]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()

    async def _by_leader(self, partitions: list[TopicPartition]) -> dict[int, list[TopicPartition]]:
        """Those that still exist. A broker that has just become the coordinator may not have heard
        of a new topic yet: to leave that out would hold back its readers for ever."""
        groups: dict[int, list[TopicPartition]] = {}
        unknown = await self._add_known(groups, partitions)
        if unknown:
            await self._heard_of_all_topics()
            await self._add_known(groups, unknown)
        return groups

    async def _add_known(
        self, groups: dict[int, list[TopicPartition]], partitions: list[TopicPartition]
    ) -> list[TopicPartition]:
        """Returns the others."""
        unknown: list[TopicPartition] = []
        async for at in Slices(self._clock).of(partitions):
            partition = self._image.partition(*at)
            if partition is None:
                unknown.append(at)
            else:
                groups.setdefault(partition.leader, []).append(at)
        return unknown

    async def _try(
        self, leader_id: int, marker: Marker, partitions: list[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        if leader_id == self._own_id:
            begun = [self.begin(at, marker) async for at in Slices(self._clock).of(partitions)]
            return dict(zip(partitions, await self.settle(begun), strict=True))
        said: dict[TopicPartition, ErrorCode] = {}
        if leader_id != NO_LEADER:
            try:
                said = await self._remote_markers.write(BrokerId(leader_id), marker, partitions)
            except KafkaError as error:
                logger.info("markers for %d partitions wait: %s", len(partitions), error)
        return {at: said.get(at, ErrorCode.LEADER_NOT_AVAILABLE) for at in partitions}

    @property
    def _remote_markers(self) -> RemoteMarkers:
        if self._remote is None:
            from ottla.server.remote_markers import RemoteMarkers

            self._remote = RemoteMarkers(self._peers)
        return self._remote


def _ignore_error(begun: asyncio.Future[Appended]) -> None:
    """Whoever asked for the marker may have hung up, and asks again."""
    if not begun.cancelled():
        begun.exception()


def _outcome(begun: Begun) -> ErrorCode:
    if not isinstance(begun, asyncio.Future):
        return begun
    if begun.cancelled() or not begun.done():
        begun.cancel()  # It has its place, and may be committed yet.
        return ErrorCode.REQUEST_TIMED_OUT
    error = begun.exception()
    if error is None:
        return ErrorCode.NONE
    if not isinstance(error, KafkaError):
        raise error
    return error.code


def _is_over(at: TopicPartition, code: ErrorCode) -> bool:
    """Whether there is nothing more to do. Raises KafkaError for a coordinator that was
    replaced."""
    if code is ErrorCode.TRANSACTION_COORDINATOR_FENCED:
        raise KafkaError(code, f"{at} has a marker of a newer coordinator")
    if code is ErrorCode.INVALID_PRODUCER_EPOCH:
        # Whoever raised the epoch has ended this transaction there.
        logger.warning("%s has heard of a newer epoch of the producer", at)
        return True
    return code is ErrorCode.NONE
