from __future__ import annotations

from typing import cast

import pytest

from ottla.config.broker import BrokerConfig
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import BrokerId
from ottla.membership.controlled_shutdown import hand_over_leaderships
from ottla.membership.controller_channel import ControllerChannel
from ottla.metadata.image import BrokerImage, ClusterImage
from ottla.testing.loop import VirtualLoop, run_virtual
from ottla.wire.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)

MOVED = ControlledShutdownResponse()
LEFT = ControlledShutdownResponse(
    remaining_partitions=[RemainingPartition(topic_name="t", partition_index=0)]
)
AWAY = KafkaError(ErrorCode.NETWORK_EXCEPTION, "cut")
REFUSED = ControlledShutdownResponse(error_code=ErrorCode.NOT_CONTROLLER)


class ScriptedChannel:
    def __init__(self, *answers: ControlledShutdownResponse | Exception) -> None:
        self.asked: list[ControlledShutdownRequest] = []
        self._answers = list(answers)

    async def controlled_shutdown(
        self, request: ControlledShutdownRequest
    ) -> ControlledShutdownResponse:
        self.asked.append(request)
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def cluster(*broker_ids: int) -> ClusterImage:
    image = ClusterImage()
    image.brokers = {BrokerId(each): BrokerImage(BrokerId(each), 1, {}) for each in broker_ids}
    image.controller_id = 1
    return image


@pytest.mark.parametrize(
    ("answers", "pauses"),
    [
        ((MOVED,), 0),
        ((LEFT, MOVED), 1),
        ((AWAY, REFUSED, MOVED), 2),
        ((LEFT, AWAY, REFUSED, LEFT), 3),
    ],
)
def test_it_is_asked_for_until_nothing_is_left_or_often_enough(
    answers: tuple[ControlledShutdownResponse | Exception, ...], pauses: int
) -> None:
    async def main(loop: VirtualLoop) -> None:
        channel = ScriptedChannel(*answers)
        config = BrokerConfig({"controlled.shutdown.retry.backoff.ms": "2000"})
        began_s = loop.time()
        await hand_over_leaderships(
            cast("ControllerChannel", channel), cluster(1, 3), BrokerId(3), lambda: 42, config
        )
        assert loop.time() - began_s == pytest.approx(2 * pauses)
        request = ControlledShutdownRequest(broker_id=3, broker_epoch=42)
        assert channel.asked == [request] * len(answers)

    run_virtual(main)


def test_where_nobody_else_is_left_nobody_is_asked() -> None:
    async def main(loop: VirtualLoop) -> None:
        channel = ScriptedChannel()
        await hand_over_leaderships(
            cast("ControllerChannel", channel), cluster(3), BrokerId(3), lambda: 42, BrokerConfig()
        )
        assert channel.asked == []

    run_virtual(main)


def test_another_controller_is_asked_at_once() -> None:
    """The one before has stopped first, as when all of them are stopped."""

    async def main(loop: VirtualLoop) -> None:
        channel, image = ScriptedChannel(AWAY, MOVED), cluster(1, 2, 3)
        loop.call_later(0.5, setattr, image, "controller_id", -1)
        loop.call_later(1.0, setattr, image, "controller_id", 2)
        began_s = loop.time()
        await hand_over_leaderships(
            cast("ControllerChannel", channel), image, BrokerId(3), lambda: 42, BrokerConfig()
        )
        assert loop.time() - began_s == pytest.approx(1.0, abs=0.06)

    run_virtual(main)


@pytest.mark.parametrize("after_s", [0.0, 1.0])
def test_it_does_not_wait_for_brokers_that_have_stopped_too(after_s: float) -> None:
    async def main(loop: VirtualLoop) -> None:
        channel, image = ScriptedChannel(LEFT), cluster(1, 3)
        loop.call_later(after_s, setattr, image, "brokers", cluster(3).brokers)
        began_s = loop.time()
        await hand_over_leaderships(
            cast("ControllerChannel", channel), image, BrokerId(3), lambda: 42, BrokerConfig()
        )
        assert loop.time() - began_s == pytest.approx(after_s, abs=0.06)
        assert len(channel.asked) == 1

    run_virtual(main)
