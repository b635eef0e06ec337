"""The broker's session in the coordination store while it starts: a start may take minutes, and a
session that ends meanwhile is no reason to refuse it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from ottla.coordination.store import ConnectionLost, SessionExpired, Store

log = logging.getLogger(__name__)

RETRY_S = 1.0

T = TypeVar("T")


async def in_session(store: Store, step: Callable[[], Awaitable[T]]) -> T:
    """What this step of a start returns. When the store cannot be reached meanwhile, or the session
    has expired, the step begins anew: so it must be one that can be done again. For nobody but who
    began the session: others wait until there is another one."""
    is_over = False
    while True:
        try:
            if is_over:
                await store.open()
                is_over = False
            return await step()
        except (SessionExpired, ConnectionLost) as error:
            is_over = is_over or isinstance(error, SessionExpired)
            log.warning("the start goes on when the coordination store is back: %s", error)
            await asyncio.sleep(RETRY_S)
