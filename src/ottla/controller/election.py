"""Who is controller: the first to create `/controller`, which goes with its session.

Each new controller raises `/controller_epoch`, and every write of a controller checks that
node's version in the same step. So a controller that was replaced without noticing (a long
pause, a lost session) cannot write any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from ottla.coordination import znodes
from ottla.coordination.image import ClusterImage, load_image
from ottla.coordination.store import (
    BadVersion,
    Check,
    ConnectionLost,
    Create,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    SessionExpired,
    Set,
    Store,
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
        return None
    assert isinstance(version, int)
    return Leadership(epoch, version)


class ControllerWriter:
    """Writes as controller, for as long as nobody else has become it."""

    def __init__(self, store: Store, image: ClusterImage, leadership: Leadership) -> None:
        self._store = store
        self._image = image
        self.leadership = leadership
        self._is_in_doubt = False

    async def refresh(self) -> None:
        """To be called before a change is planned from the picture: reads that again when the
        last write left it open whether it shows what is stored."""
        if not self._is_in_doubt:
            return
        try:
            image = await load_image(self._store)
        except SessionExpired as error:
            raise _not_controller() from error
        except ConnectionLost as error:
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"The coordination store did not answer ({error}); nothing was done. Try again.",
            ) from error
        self._image.become(image)
        self._is_in_doubt = False

    async def write(self, operations: Sequence[Operation]) -> list[str | int | None]:
        """All or nothing."""
        guard = Check(znodes.CONTROLLER_EPOCH, self.leadership.epoch_version)
        try:
            return (await self._store.multi([guard, *operations]))[1:]
        except SessionExpired as error:
            raise _not_controller() from error
        except ConnectionLost as error:
            self._is_in_doubt = True
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"The coordination store did not answer ({error}); the change may or may not have"
                " been made. Look, then try again.",
            ) from error
        except (BadVersion, NodeExists, NoNode, NotEmpty) as error:
            if error.path == znodes.CONTROLLER_EPOCH:
                raise _not_controller() from error
            self._is_in_doubt = True
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"Somebody else changed {error.path} in the coordination store meanwhile. Nothing"
                " was done; try again.",
            ) from error


def _not_controller() -> KafkaError:
    return KafkaError(
        ErrorCode.NOT_CONTROLLER,
        "This broker is not the controller any more. Ask again for metadata and try there.",
    )
