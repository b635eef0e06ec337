"""Writes the markers that end a transaction into the partitions that it wrote to.

The transaction coordinator asks for them when it has decided (`write`), and an administrator may
ask for one, to end a transaction that nobody else ends (`append`, by WriteTxnMarkers).
"""

from __future__ import annotations

import asyncio
import logging

from ottla.coordination.image import ClusterImage
from ottla.coordinators.groups.group_coordinator import GroupCoordinator
from ottla.coordinators.transactions.markers import TransactionMarkers
from ottla.kernel.clock import Clock
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import TopicPartition
from ottla.kernel.internal_topics import CONSUMER_OFFSETS
from ottla.kernel.slices import Slices
from ottla.replication.leader import Marker
from ottla.replication.replica_manager import ReplicaManager

logger = logging.getLogger(__name__)

_FIRST_PAUSE_S = 0.02
_LONGEST_PAUSE_S = 1.0


class TransactionMarkerWriter:
    """Owned by the broker. What it has not written when the broker dies is asked for again by the
    coordinator that loads the transaction: a marker that comes twice changes nothing."""

    def __init__(
        self,
        image: ClusterImage,
        replicas: ReplicaManager,
        groups: GroupCoordinator,
        clock: Clock,
    ) -> None:
        self._image = image
        self._replicas = replicas
        self._groups = groups
        self._clock = clock

    async def append(self, at: TopicPartition, marker: Marker) -> None:
        """Into one partition that this broker leads; returns when it is committed. Raises
        KafkaError."""

        def on_placed() -> None:
            # At once: what a group commits after it belongs to the next transaction.
            if at.topic == CONSUMER_OFFSETS:
                self._groups.transaction_ended(at.partition, marker.producer_id, marker.is_commit)

        leader = self._replicas.partition(at.topic, at.partition).leader
        appended = leader.append_marker(**marker._asdict(), on_placed=on_placed)
        if isinstance(appended, asyncio.Future):
            await appended

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
        waiting = sorted(markers.partitions)  # So that a simulation repeats itself.
        pause_s = _FIRST_PAUSE_S
        while True:
            slices = Slices(self._clock)
            waiting = [at async for at in slices.of(waiting) if not await self._try(at, marker)]
            if not waiting:
                return
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)

    async def _try(self, at: TopicPartition, marker: Marker) -> bool:
        if self._image.partition(*at) is None:
            return True
        try:
            await self.append(at, marker)
        except KafkaError as error:
            if error.code is ErrorCode.TRANSACTION_COORDINATOR_FENCED:
                raise
            if error.code is ErrorCode.INVALID_PRODUCER_EPOCH:
                # Whoever raised the epoch has ended this transaction there.
                logger.warning("%s: %s", at, error)
                return True
            logger.info("the marker for %s waits: %s", at, error)
            return False
        return True
