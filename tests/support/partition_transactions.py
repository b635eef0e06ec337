"""Transactions in one partition, without the coordinator that they belong to."""

from __future__ import annotations

import asyncio

from ottla.replication.partition import Partition
from ottla.storage.pending_write import Appended
from ottla.storage.verification import VerificationGuard
from ottla.testing.loop import EPOCH_MS
from tests.support.simulated_broker import make_batch


def verify(
    partition: Partition,
    producer_id: int,
    *,
    epoch: int = 0,
    sequence: int = 0,
    supports_epoch_bump: bool = False,
) -> VerificationGuard | None:
    return partition.leader.begin_verification(
        producer_id, epoch, sequence, supports_epoch_bump=supports_epoch_bump
    )


async def append(
    partition: Partition,
    producer_id: int,
    *values: bytes,
    epoch: int = 0,
    sequence: int = 0,
    guard: VerificationGuard | None = None,
) -> Appended:
    batch = make_batch(
        *values,
        timestamp=EPOCH_MS,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_transactional=True,
    )
    return await _settled(
        partition.leader.append(memoryview(batch), acks=-1, produce_version=12, guard=guard)
    )


async def write(
    partition: Partition,
    producer_id: int,
    *values: bytes,
    epoch: int = 0,
    sequence: int = 0,
    supports_epoch_bump: bool = False,
) -> Appended:
    """As if the coordinator had vouched for it."""
    guard = verify(
        partition,
        producer_id,
        epoch=epoch,
        sequence=sequence,
        supports_epoch_bump=supports_epoch_bump,
    )
    return await append(
        partition, producer_id, *values, epoch=epoch, sequence=sequence, guard=guard
    )


async def end(
    partition: Partition,
    producer_id: int,
    *,
    is_commit: bool,
    epoch: int = 0,
    coordinator_epoch: int = 0,
    version: int = 1,
) -> Appended:
    return await _settled(
        partition.leader.append_marker(
            producer_id=producer_id,
            producer_epoch=epoch,
            is_commit=is_commit,
            coordinator_epoch=coordinator_epoch,
            transaction_version=version,
        )
    )


async def _settled(appended: Appended | asyncio.Future[Appended]) -> Appended:
    return appended if isinstance(appended, Appended) else await appended
