"""A broker's place in the cluster: its registration, and the cluster's id.

A registration goes with its session. A session expires when the store has not heard from the broker
for too long: it was paused, or cut off. The broker serves on, whatever the store believes: epochs
see to it that nothing counts that it should not have done. And it registers anew, in a new session,
with a new epoch.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import NamedTuple

from ottla.coordination import znodes
from ottla.coordination.ephemeral import create_ephemeral
from ottla.coordination.store import (
    Create,
    NodeExists,
    NoNode,
    SessionState,
    Store,
    StoreError,
    StoreUnusable,
    with_parents,
)
from ottla.coordination.znodes import BrokerInfo
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import BrokerId, new_topic_id, topic_id_text
from ottla.kernel.state_change_log import StateChangeLog
from ottla.membership.session import RETRY_S, in_session
from ottla.metadata.image import BrokerImage
from ottla.metadata.loading import broker_image

log = logging.getLogger(__name__)

_LEFTOVER_TIMEOUT_S = 45.0
"""Longer than ZooKeeper lets a session live by default: 40 s."""


class Prepared(NamedTuple):
    cluster_id: str
    adopts_logs: bool
    """Whether the store is new, and nobody knows yet which topics there are."""


async def prepare_store(
    store: Store, rng: random.Random, *, cluster_id: str | None = None
) -> Prepared:
    """Makes what every broker expects to be there, and the cluster's id: the given one, which
    the log dirs know, or a new one."""
    while not await store.exists(znodes.CLUSTER_ID):
        present = await store.tree("/")
        missing = dict.fromkeys(
            path
            for full_path in znodes.PERSISTENT_PATHS
            for path in with_parents(full_path)
            if path not in present
        )
        # The same kind of text as a topic's id.
        chosen = cluster_id or topic_id_text(new_topic_id(rng))
        operations = [Create(path) for path in missing]
        operations.append(Create(znodes.CLUSTER_ID, znodes.encode_cluster_id(chosen)))
        operations.append(Create(znodes.LOG_ADOPTION))
        with suppress(NodeExists):  # Another broker does the same right now.
            await store.multi(operations)
    await _make_later_paths(store)
    node = await store.get(znodes.CLUSTER_ID)
    adopts_logs = await store.exists(znodes.LOG_ADOPTION)
    return Prepared(znodes.decode_cluster_id(node.data), adopts_logs)


async def _make_later_paths(store: Store) -> None:
    """For a store that an earlier version made."""
    names = await store.children("/")
    for path in znodes.PERSISTENT_PATHS:
        if path.split("/")[1] not in names:
            with suppress(NodeExists):  # Another broker does the same right now.
                await store.create(path)


async def end_adoption(store: Store) -> None:
    """From now on a log that belongs to no topic is a stray."""
    with suppress(NoNode):
        await store.delete(znodes.LOG_ADOPTION)


async def register_broker(store: Store, broker_id: BrokerId, info: BrokerInfo) -> BrokerImage:
    """A registration with the same endpoints is this broker's own, of before a crash: nobody else
    can listen there. It goes with its session, and is waited for. Kafka refuses to start then."""

    def is_leftover(data: bytes) -> bool:
        return znodes.decode_broker(broker_id, data).endpoints == info.endpoints

    try:
        node = await create_ephemeral(
            store,
            znodes.broker_path(broker_id),
            znodes.encode_broker(info),
            is_leftover=is_leftover,
            leftover_timeout_s=_LEFTOVER_TIMEOUT_S,
        )
    except NodeExists as error:
        raise KafkaError(
            ErrorCode.DUPLICATE_BROKER_REGISTRATION,
            f"A broker with id {broker_id} is running in this cluster. Stop it, or give this one"
            " another id.",
        ) from error
    return broker_image(broker_id, info, node.czxid)


class Registration:
    """Owned by the broker, from its start until it stops. A crash leaves the znode until the
    session has timed out."""

    def __init__(
        self,
        store: Store,
        broker_id: BrokerId,
        info: BrokerInfo,
        cluster_id: str,
        *,
        on_renewed: Callable[[BrokerImage], Awaitable[None]],
        on_failure: Callable[[str], None],
        changes: StateChangeLog | None = None,
    ) -> None:
        """`on_renewed` is awaited after each registration but the first, and again when it raised
        `StoreError`. `on_failure` is told why there can be no other one."""
        self._store = store
        self._broker_id = broker_id
        self._info = info
        self._cluster_id = cluster_id
        self._on_renewed = on_renewed
        self._on_failure = on_failure
        self._changes = changes or StateChangeLog(broker_id)
        self._has_started = False
        self._is_session_over = False
        self._is_closed = False
        self._renewal: asyncio.Task[None] | None = None
        self.epoch = -1
        """The broker's epoch, by which the controller tells one registration from another."""

    async def start(self) -> BrokerImage:
        """Raises what `register_broker` raises, and `StoreUnusable`."""
        self._store.on_session(self._session_changed)
        registered = await in_session(self._store, self._register)
        self._has_started = True
        if self._is_session_over:
            self._begin_renewal()
        return registered

    def seen_by_controller(self, broker_epoch: int) -> None:
        """A request of the controller names this registration: by then it has taken out of the ISRs
        what may not be whole. The next registration need not say so again."""
        if broker_epoch == self.epoch:
            self._info = self._info._replace(unclean_log_dirs=())

    @property
    def is_unclean(self) -> bool:
        """Whether logs may not be whole, and the controller has not heard so yet."""
        return bool(self._info.unclean_log_dirs)

    async def close(self) -> None:
        """Before the store is closed. A session that expires from here on is not followed by
        another: the controller would take a broker for alive that has stopped."""
        self._is_closed = True
        if self._renewal is not None:
            self._renewal.cancel()
            await asyncio.wait([self._renewal])

    async def _register(self) -> BrokerImage:
        registered = await register_broker(self._store, self._broker_id, self._info)
        self.epoch = registered.epoch
        return registered

    def _session_changed(self, state: SessionState) -> None:
        self._changes.session_changed(state.value)
        self._is_session_over = state is SessionState.EXPIRED
        if self._is_session_over and self._has_started and not self._is_closed:
            self._begin_renewal()

    def _begin_renewal(self) -> None:
        if self._renewal is None or self._renewal.done():
            self._renewal = asyncio.get_running_loop().create_task(self._renew())

    async def _renew(self) -> None:
        log.warning(
            "the session in the coordination store has expired: serving on, and registering anew"
        )
        while True:
            try:
                await self._try_to_renew()
            except StoreUnusable as error:
                self._on_failure(f"its coordination store cannot be used any more: {error}")
                return
            except (StoreError, KafkaError, OSError) as error:
                log.warning("not registered yet, trying again: %s", error)
                await asyncio.sleep(RETRY_S)
            else:
                log.info("registered anew, with epoch %d", self.epoch)
                if not self._is_session_over:  # By now: nobody else would begin another.
                    return

    async def _try_to_renew(self) -> None:
        if self._is_session_over:
            await self._store.open()
        try:
            cluster_id = znodes.decode_cluster_id((await self._store.get(znodes.CLUSTER_ID)).data)
        except NoNode:
            cluster_id = None
        if cluster_id != self._cluster_id:
            raise StoreUnusable("", f"it is not the one of cluster {self._cluster_id} any more")
        await self._on_renewed(await self._register())
