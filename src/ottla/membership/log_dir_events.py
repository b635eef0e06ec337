"""Tells the controller that a log dir of this broker has failed, by a node in
`/log_dir_event_notification`, as Kafka's brokers do: it then asks which replicas are offline."""

from __future__ import annotations

import asyncio
import logging

from ottla.coordination import znodes
from ottla.coordination.store import Store, StoreError
from ottla.kernel.ids import BrokerId

log = logging.getLogger(__name__)

RETRY_S = 1.0


class LogDirEvents:
    """Owned by the broker. A crash before the node is written loses nothing: the next run tells of
    its replicas anew."""

    def __init__(self, store: Store, broker_id: BrokerId) -> None:
        self._store = store
        self._broker_id = broker_id
        self._telling: asyncio.Task[None] | None = None

    def tell(self) -> None:
        """Once for all log dirs that have failed so far."""
        if self._telling is None or self._telling.done():
            self._telling = asyncio.get_running_loop().create_task(self._tell())

    async def close(self) -> None:
        if self._telling is not None:
            self._telling.cancel()
            await asyncio.wait([self._telling])

    async def _tell(self) -> None:
        while True:
            try:
                await self._store.create(
                    znodes.LOG_DIR_EVENT_PREFIX,
                    znodes.encode_log_dir_event(self._broker_id),
                    sequential=True,
                )
            except StoreError as error:
                log.warning("the controller is not told of the failed log dir yet: %s", error)
                await asyncio.sleep(RETRY_S)
            else:
                return
