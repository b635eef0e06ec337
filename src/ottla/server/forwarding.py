"""What any broker is asked for, and only the controller does.

Most of it clients send to the controller, which Metadata names: another broker answers
NOT_CONTROLLER, as Kafka 3.9 does beside ZooKeeper, and they look for it again (`check_controller`).
Settings they change at any broker, and topics that are made by asking for them are asked for
anywhere: these requests are passed on.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TypeVar

from ottla.controller.topic_planning import NewTopic
from ottla.kernel.clock import Clock
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import BrokerId
from ottla.membership.peers import Peers
from ottla.metadata.image import ClusterImage
from ottla.server.context import RequestContext
from ottla.wire.schema import Request, Response

R = TypeVar("R", bound=Response)

PURPOSE = "forwarding"

_PAUSE_S = 0.1
_TRIED_FOR_S = 10.0
"""While there is no controller, or it cannot be reached: another one is elected."""

_PASSING = (
    ErrorCode.NOT_CONTROLLER,
    ErrorCode.BROKER_NOT_AVAILABLE,
    ErrorCode.NETWORK_EXCEPTION,
)


def is_passed_on(context: RequestContext) -> bool:
    """Whether a broker passed it on, as `Peers` names itself. Where both take the other for the
    controller it would go to and fro."""
    client_id = context.client_id or ""
    return client_id.startswith("broker-") and client_id.endswith(f"-{PURPOSE}")


class Forwarding:
    """Owned by the broker. What is on its way in a crash the client asks for again."""

    def __init__(self, own_id: BrokerId, image: ClusterImage, peers: Peers, clock: Clock) -> None:
        self._own_id = own_id
        self._image = image
        self._peers = peers
        self._clock = clock
        self._creating: dict[str, asyncio.Task[None]] = {}
        """Topics that the controller is asked for now."""

    @property
    def is_controller(self) -> bool:
        return self._image.controller_id == self._own_id

    def check_controller(self) -> None:
        """Raises KafkaError where another broker is the controller."""
        if not self.is_controller:
            raise KafkaError(
                ErrorCode.NOT_CONTROLLER,
                f"This is broker {self._own_id}. "
                + (
                    "The cluster has no controller now."
                    if self._image.controller_id < 0
                    else f"The controller is broker {self._image.controller_id}."
                ),
            )

    async def ask(self, request: Request, response_class: type[R]) -> R:
        """What the controller answers. Raises KafkaError where it could not be asked; where the
        connection was lost it may have done it, and is asked again."""
        give_up_s = self._clock.monotonic_s() + _TRIED_FOR_S
        while True:
            try:
                return await self._ask_once(request, response_class)
            except KafkaError as error:
                if error.code not in _PASSING or self._clock.monotonic_s() >= give_up_s:
                    raise
            await asyncio.sleep(_PAUSE_S)

    async def _ask_once(self, request: Request, response_class: type[R]) -> R:
        controller_id = self._image.controller_id
        if controller_id < 0 or self.is_controller:  # It may have become that meanwhile.
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "The controller is about to change.")
        return await self._peers.ask(
            BrokerId(controller_id), request, response_class, purpose=PURPOSE
        )

    async def create_topic(self, topic: NewTopic) -> None:
        """By the controller; of many who ask at once the first asks for all. Raises KafkaError.
        This broker hears of the topic soon after."""
        creating = self._creating.get(topic.name)
        if creating is None:
            creating = asyncio.get_running_loop().create_task(self._create_topic(topic))
            self._creating[topic.name] = creating
            creating.add_done_callback(partial(self._created, topic.name))
        await asyncio.shield(creating)

    def _created(self, name: str, done: asyncio.Task[None]) -> None:
        del self._creating[name]
        if not done.cancelled():
            done.exception()  # Whoever asked may have hung up: then nobody else looks at it.

    async def _create_topic(self, topic: NewTopic) -> None:
        from ottla.wire.messages.create_topics import (
            CreatableTopic,
            CreatableTopicConfig,
            CreateTopicsRequest,
            CreateTopicsResponse,
        )

        asked = CreatableTopic(
            name=topic.name,
            num_partitions=topic.partition_count,
            replication_factor=topic.replication_factor,
            configs=[
                CreatableTopicConfig(name=name, value=value) for name, value in topic.config.items()
            ],
        )
        request = CreateTopicsRequest(topics=[asked], timeout_ms=int(_TRIED_FOR_S * 1000))
        (result,) = (await self.ask(request, CreateTopicsResponse)).topics
        if result.error_code:
            raise KafkaError(ErrorCode(result.error_code), result.error_message)
