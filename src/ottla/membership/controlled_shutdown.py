"""The last thing a broker asks for before it stops: that others lead what it leads, so that clients
go to them at once, and nobody waits for a session to expire."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from ottla.config.broker import BrokerConfig
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import BrokerId
from ottla.membership.controller_channel import ControllerChannel
from ottla.metadata.image import ClusterImage

log = logging.getLogger(__name__)

_LOOK_S = 0.05


async def hand_over_leaderships(
    channel: ControllerChannel,
    image: ClusterImage,
    broker_id: BrokerId,
    broker_epoch: Callable[[], int],
    config: BrokerConfig,
) -> None:
    """Asks until the controller has nothing left to move, or nobody else is left, and
    `controlled.shutdown.max.retries` times more at the most. It does not raise: the broker stops
    all the same, and what it still leads others take over when its registration is gone."""
    from ottla.wire.messages.controlled_shutdown import ControlledShutdownRequest

    asked = image.controller_id
    for attempt in range(config.controlled_shutdown_max_retries + 1):
        if attempt:
            await _pause(config.controlled_shutdown_retry_backoff_ms / 1000, image, asked)
        if image.brokers.keys() <= {broker_id}:
            return
        asked = image.controller_id
        request = ControlledShutdownRequest(broker_id=broker_id, broker_epoch=broker_epoch())
        try:
            response = await channel.controlled_shutdown(request)
        except (KafkaError, OSError) as error:
            log.warning("the controller could not be asked to move leaders away: %s", error)
            continue
        if response.error_code:
            log.warning(
                "the controller does not move leaders away: %s",
                ErrorCode(response.error_code).name,
            )
        elif not response.remaining_partitions:
            return
        else:
            log.warning(
                "%d partitions are still led here, and have no other replica in sync",
                len(response.remaining_partitions),
            )
    log.warning("stopping all the same: clients wait until the controller notices")


async def _pause(seconds: float, image: ClusterImage, asked: int) -> None:
    """Ends at once where the answer will be another one: there is another controller than the one
    that was asked, or a broker has gone. Where several stop together, the controller may be the
    first of them."""
    loop = asyncio.get_running_loop()
    until_s, brokers = loop.time() + seconds, set(image.brokers)
    while (
        (left_s := until_s - loop.time()) > 0
        and (image.controller_id == asked or image.controller_id < 0)
        and brokers <= image.brokers.keys()
        and len(image.brokers) > 1
    ):
        await asyncio.sleep(min(left_s, _LOOK_S))
