"""Producer ids, for idempotent and transactional producers. No two producers of a cluster ever
get the same one: they are given out in blocks, each to one broker."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from ottla.coordination import znodes
from ottla.coordination.store import BadVersion, Store
from ottla.coordination.znodes import ProducerIdBlock
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import BrokerId, ProducerId

if TYPE_CHECKING:
    from ottla.wire.messages.allocate_producer_ids import (
        AllocateProducerIdsRequest,
        AllocateProducerIdsResponse,
    )

TakeBlock = Callable[[], Awaitable[ProducerIdBlock]]
"""Raises KafkaError."""


class ProducerIds:
    """Owned by the broker. Gives the ids of its blocks out one by one; a crash wastes the rest of a
    block."""

    def __init__(self, take_block: TakeBlock) -> None:
        self._take = take_block
        self._next = 0
        self._end = 0
        self._taking: asyncio.Task[None] | None = None

    async def next(self) -> ProducerId:
        while self._next == self._end:
            # Whoever comes while a block is being taken waits for that one, and for its fate.
            if self._taking is None:
                self._taking = asyncio.get_running_loop().create_task(self._take_block())
                self._taking.add_done_callback(self._taken)
            await asyncio.shield(self._taking)
        producer_id = ProducerId(self._next)
        self._next += 1
        return producer_id

    def _taken(self, task: asyncio.Task[None]) -> None:
        self._taking = None
        if not task.cancelled():
            task.exception()  # Whoever waited for it may have left.

    async def _take_block(self) -> None:
        block = await self._take()
        self._next, self._end = block.first_producer_id, block.last_producer_id + 1


async def skip_used_producer_ids(store: Store, broker_id: BrokerId, last_used: ProducerId) -> None:
    """So that greater ids only are given out. For logs that know producers of which the store does
    not: the first records of another with such an id would be taken for repeated ones, and
    acknowledged without being stored."""
    while True:
        node = await store.get(znodes.PRODUCER_ID_BLOCK)
        block = znodes.decode_producer_id_block(node.data)
        if last_used <= (block.last_producer_id if block else -1):
            return
        used = ProducerIdBlock(broker_id, last_used, last_used)
        with suppress(BadVersion):  # Another broker has just taken a block: look again.
            await store.set(
                znodes.PRODUCER_ID_BLOCK, znodes.encode_producer_id_block(used), node.version
            )


def blocks_of_controller(
    ask: Callable[[AllocateProducerIdsRequest], Awaitable[AllocateProducerIdsResponse]],
    broker_id: BrokerId,
    broker_epoch: Callable[[], int],
) -> TakeBlock:
    """Blocks that the controller gives to this broker. Whatever keeps it from that passes: clients
    come again, as they do with Kafka."""

    async def take() -> ProducerIdBlock:
        from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest

        request = AllocateProducerIdsRequest(broker_id=broker_id, broker_epoch=broker_epoch())
        try:
            response = await ask(request)
        except (KafkaError, OSError) as error:
            raise _come_again(f"from the controller now: {error}") from error
        if response.error_code or response.producer_id_len < 1:
            raise _come_again(f"from the controller now: {ErrorCode(response.error_code).name}")
        first = response.producer_id_start
        return ProducerIdBlock(broker_id, first, first + response.producer_id_len - 1)

    return take


def _come_again(why: str) -> KafkaError:
    return KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"No producer ids can be had {why}")
