"""Settings of topics, brokers, groups and subscriptions to metrics of clients, changed while they
run, kept in `/config/...`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ottla.controller.election import ControllerWriter
from ottla.controller.events import EventQueue
from ottla.controller.topic_names import check_topic_name
from ottla.coordination import znodes
from ottla.coordination.image import (
    BrokerConfigChanged,
    Change,
    ClientMetricsConfigChanged,
    ClusterImage,
    GroupConfigChanged,
    TopicConfigChanged,
)
from ottla.coordination.store import Create, Delete, Operation, Set
from ottla.kernel.errors import ErrorCode, KafkaError

Plan = Callable[[Mapping[str, str]], dict[str, str]]
"""From what is set to what shall be. Raises KafkaError where that may not be (see
`config.alter`)."""


class Configs:
    """Owned by the controller, for as long as it is one."""

    def __init__(self, writer: ControllerWriter, image: ClusterImage, events: EventQueue) -> None:
        self._writer = writer
        self._image = image
        self._events = events

    async def change_topic(
        self, topic: str, plan: Plan, *, validate_only: bool = False
    ) -> Mapping[str, str]:
        """Returns all settings of the topic that are its own."""

        async def event() -> Mapping[str, str]:
            await self._writer.refresh()
            if not topic:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST,
                    "No topic is named. What holds for all topics is set on the brokers.",
                )
            if topic not in self._image.topics:
                check_topic_name(topic)
                raise KafkaError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{topic}' does not exist."
                )
            known = self._image.topic_configs
            config = plan(known.get(topic, {}))
            if not validate_only:
                path = znodes.topic_config_path(topic)
                await self._writer.write([_put(path, config, is_known=topic in known)])
                self._image.apply(TopicConfigChanged(topic, config))
            return config

        return await self._events.run(event)

    async def change_broker(
        self, broker_id: int | None, plan: Plan, *, validate_only: bool = False
    ) -> Mapping[str, str]:
        """None: what holds for every broker. Returns all dynamic settings of the broker."""

        async def event() -> Mapping[str, str]:
            await self._writer.refresh()
            known = self._image.broker_configs
            config = plan(known.get(broker_id, {}))
            if not validate_only:
                path = znodes.broker_config_path(broker_id)
                await self._writer.write([_put(path, config, is_known=broker_id in known)])
                self._image.apply(BrokerConfigChanged(broker_id, config))
            return config

        return await self._events.run(event)

    async def change_group(
        self, group_id: str, plan: Plan, *, validate_only: bool = False
    ) -> Mapping[str, str]:
        """Returns all settings of the group that are its own."""
        return await self._change_named(
            self._image.group_configs,
            znodes.group_config_path(group_id),
            group_id,
            plan,
            GroupConfigChanged,
            validate_only,
        )

    async def change_client_metrics(
        self, subscription: str, plan: Plan, *, validate_only: bool = False
    ) -> Mapping[str, str]:
        """Returns all settings of the subscription."""
        return await self._change_named(
            self._image.client_metrics_configs,
            znodes.client_metrics_config_path(subscription),
            subscription,
            plan,
            ClientMetricsConfigChanged,
            validate_only,
        )

    async def _change_named(
        self,
        known: Mapping[str, Mapping[str, str]],
        path: str,
        name: str,
        plan: Plan,
        changed: Callable[[str, Mapping[str, str]], Change],
        validate_only: bool,
    ) -> Mapping[str, str]:
        """What is there by its settings alone, or comes and goes while nobody deletes them: without
        any, nothing is kept of it."""

        async def event() -> Mapping[str, str]:
            await self._writer.refresh()
            config = plan(known.get(name, {}))
            if not validate_only and (config or name in known):
                put = _put(path, config, is_known=name in known)
                await self._writer.write([put if config else Delete(path)])
                self._image.apply(changed(name, config))
            return config

        return await self._events.run(event)


def _put(path: str, config: Mapping[str, str], *, is_known: bool) -> Operation:
    data = znodes.encode_config(config)
    return Set(path, data) if is_known else Create(path, data)
