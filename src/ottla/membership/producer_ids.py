"""Producer ids, for idempotent and transactional producers. No two producers of a cluster ever
get the same one."""

from __future__ import annotations

import asyncio

from ottla.coordination import znodes
from ottla.coordination.store import BadVersion, Store, StoreError
from ottla.coordination.znodes import ProducerIdBlock
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import BrokerId, ProducerId

BLOCK_SIZE = 1_000
_PRODUCER_ID_MAX = 2**63 - 1


class ProducerIds:
    """Owned by the broker. Takes blocks of ids from the store and gives them out one by one; a
    crash wastes the rest of its block."""

    def __init__(self, store: Store, broker_id: BrokerId) -> None:
        self._store = store
        self._broker_id = broker_id
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

    async def skip(self, last_used: ProducerId) -> None:
        """Gives out greater ones only. For logs that know producers of which the store does not:
        the first records of another with such an id would be taken for repeated ones, and
        acknowledged without being stored."""
        node = await self._store.get(znodes.PRODUCER_ID_BLOCK)
        block = znodes.decode_producer_id_block(node.data)
        if last_used > (block.last_producer_id if block else -1):
            used = ProducerIdBlock(self._broker_id, last_used, last_used)
            await self._store.set(
                znodes.PRODUCER_ID_BLOCK, znodes.encode_producer_id_block(used), node.version
            )

    def _taken(self, task: asyncio.Task[None]) -> None:
        self._taking = None

    async def _take_block(self) -> None:
        try:
            while not await self._try_to_take_block():
                pass  # Another broker took one between our read and our write.
        except StoreError as error:
            raise KafkaError(
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
                f"No producer ids can be had from the coordination store now: {error}",
            ) from error

    async def _try_to_take_block(self) -> bool:
        node = await self._store.get(znodes.PRODUCER_ID_BLOCK)
        last = znodes.decode_producer_id_block(node.data)
        first = last.last_producer_id + 1 if last else 0
        if first > _PRODUCER_ID_MAX - BLOCK_SIZE:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "All producer ids are given out.")
        block = ProducerIdBlock(self._broker_id, first, first + BLOCK_SIZE - 1)
        try:
            await self._store.set(
                znodes.PRODUCER_ID_BLOCK, znodes.encode_producer_id_block(block), node.version
            )
        except BadVersion:
            return False
        self._next, self._end = first, first + BLOCK_SIZE
        return True
