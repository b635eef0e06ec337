"""A broker's place in the cluster: its registration, and the cluster's id."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import NamedTuple

from ottla.coordination import znodes
from ottla.coordination.ephemeral import create_ephemeral
from ottla.coordination.image import BrokerImage, broker_image
from ottla.coordination.store import Create, NodeExists, NoNode, Store, with_parents
from ottla.coordination.znodes import BrokerInfo
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import BrokerId, new_topic_id, topic_id_text

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
    node = await store.get(znodes.CLUSTER_ID)
    adopts_logs = await store.exists(znodes.LOG_ADOPTION)
    return Prepared(znodes.decode_cluster_id(node.data), adopts_logs)


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
