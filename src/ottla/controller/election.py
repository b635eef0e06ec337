"""Who is controller: the first to create `/controller`, which goes with its session.

Each new controller raises `/controller_epoch`, and every write of a controller checks that
node's version in the same step. So a controller that was replaced without noticing (a long
pause, a lost session) cannot write any more.
"""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

from ottla.coordination import znodes
from ottla.coordination.store import (
    BadVersion,
    ConnectionLost,
    Create,
    NodeExists,
    NoNode,
    SessionExpired,
    Set,
    Store,
    StoreError,
)
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import BrokerId


class Leadership(NamedTuple):
    controller_epoch: int
    epoch_version: int
    """Of `/controller_epoch`, as this controller left it."""


async def elect(store: Store, broker_id: BrokerId, timestamp_ms: int) -> Leadership | None:
    """None when another broker is controller, or was quicker."""
    try:
        node = await store.get(znodes.CONTROLLER_EPOCH)
    except NoNode:
        with suppress(NodeExists):
            await store.create(znodes.CONTROLLER_EPOCH, znodes.encode_controller_epoch(0))
        node = await store.get(znodes.CONTROLLER_EPOCH)
    epoch = znodes.decode_controller_epoch(node.data) + 1
    try:
        _, version = await store.multi(
            [
                Create(
                    znodes.CONTROLLER,
                    znodes.encode_controller(broker_id, timestamp_ms),
                    ephemeral=True,
                ),
                Set(znodes.CONTROLLER_EPOCH, znodes.encode_controller_epoch(epoch), node.version),
            ]
        )
    except (NodeExists, BadVersion):
        return await _own_leadership(store, broker_id)
    assert isinstance(version, int)
    return Leadership(epoch, version)


async def _own_leadership(store: Store, broker_id: BrokerId) -> Leadership | None:
    """Of an election in this session whose answer was lost."""
    try:
        node = await store.get(znodes.CONTROLLER)
        epoch = await store.get(znodes.CONTROLLER_EPOCH)
    except NoNode:
        return None
    if node.ephemeral_owner != store.session_id or znodes.decode_controller(node.data) != broker_id:
        return None
    return Leadership(znodes.decode_controller_epoch(epoch.data), epoch.version)


def store_failure(error: StoreError) -> KafkaError:
    """What a client is told when a controller's write failed."""
    if isinstance(error, SessionExpired) or error.path == znodes.CONTROLLER_EPOCH:
        return not_controller()
    if isinstance(error, ConnectionLost):
        return KafkaError(
            ErrorCode.REQUEST_TIMED_OUT,
            f"The coordination store did not answer ({error}); the change may or may not have been"
            " made. Look, then try again.",
        )
    return KafkaError(
        ErrorCode.REQUEST_TIMED_OUT,
        f"Somebody else changed {error.path} in the coordination store meanwhile. Nothing was done;"
        " try again.",
    )


def not_controller() -> KafkaError:
    return KafkaError(
        ErrorCode.NOT_CONTROLLER,
        "This broker is not the controller any more. Ask again for metadata and try there.",
    )
