"""Settings of topics and brokers, changed while they run, kept in `/config/...`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

from ottla.controller.election import ControllerWriter
from ottla.controller.events import EventQueue
from ottla.coordination import znodes
from ottla.coordination.image import (
    BrokerConfigChanged,
    ClusterImage,
    TopicConfigChanged,
)
from ottla.coordination.store import Create, Operation, Set
from ottla.kernel.errors import ErrorCode, KafkaError


class AlterOperation(IntEnum):
    """As IncrementalAlterConfigs numbers them."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class Alteration:
    name: str
    operation: AlterOperation
    value: str | None


class ConfigRules(Protocol):
    """What the settings of topics and brokers are. Checks raise
    `KafkaError(INVALID_CONFIG)`, or what else Kafka answers there."""

    def check_topic(self, config: Mapping[str, str]) -> None: ...

    def check_broker(self, config: Mapping[str, str], broker_id: int | None) -> None:
        """None: what holds for every broker."""
        ...

    def topic_list_default(self, name: str) -> str | None:
        """For a setting that is a list, its value when the topic does not set it; None for one
        that is no list."""
        ...

    def broker_list_default(self, name: str) -> str | None: ...


class Configs:
    """Owned by the controller, for as long as it is one."""

    def __init__(
        self,
        writer: ControllerWriter,
        image: ClusterImage,
        events: EventQueue,
        rules: ConfigRules,
    ) -> None:
        self._writer = writer
        self._image = image
        self._events = events
        self._rules = rules

    async def alter_topic(
        self, topic: str, alterations: Sequence[Alteration], *, validate_only: bool = False
    ) -> Mapping[str, str]:
        """IncrementalAlterConfigs. Returns all settings of the topic that are its own."""

        def plan(old: Mapping[str, str]) -> dict[str, str]:
            return _altered(old, alterations, self._rules.topic_list_default)

        return await self._change_topic(topic, plan, validate_only)

    async def replace_topic(
        self, topic: str, config: Mapping[str, str | None], *, validate_only: bool = False
    ) -> Mapping[str, str]:
        """AlterConfigs: what is not named goes back to its default."""
        return await self._change_topic(topic, lambda _: _without_nulls(config), validate_only)

    async def alter_broker(
        self,
        broker_id: int | None,
        alterations: Sequence[Alteration],
        *,
        validate_only: bool = False,
    ) -> Mapping[str, str]:
        def plan(old: Mapping[str, str]) -> dict[str, str]:
            return _altered(old, alterations, self._rules.broker_list_default)

        return await self._change_broker(broker_id, plan, validate_only)

    async def replace_broker(
        self,
        broker_id: int | None,
        config: Mapping[str, str | None],
        *,
        validate_only: bool = False,
    ) -> Mapping[str, str]:
        return await self._change_broker(broker_id, lambda _: _without_nulls(config), validate_only)

    async def _change_topic(
        self,
        topic: str,
        plan: Callable[[Mapping[str, str]], dict[str, str]],
        validate_only: bool,
    ) -> Mapping[str, str]:
        async def event() -> Mapping[str, str]:
            await self._writer.refresh()
            if topic not in self._image.topics:
                raise KafkaError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic {topic!r}."
                )
            known = self._image.topic_configs
            config = plan(known.get(topic, {}))
            self._rules.check_topic(config)
            if not validate_only:
                path = znodes.topic_config_path(topic)
                await self._writer.write([_put(path, config, is_known=topic in known)])
                self._image.apply(TopicConfigChanged(topic, config))
            return config

        return await self._events.run(event)

    async def _change_broker(
        self,
        broker_id: int | None,
        plan: Callable[[Mapping[str, str]], dict[str, str]],
        validate_only: bool,
    ) -> Mapping[str, str]:
        async def event() -> Mapping[str, str]:
            await self._writer.refresh()
            known = self._image.broker_configs
            config = plan(known.get(broker_id, {}))
            self._rules.check_broker(config, broker_id)
            if not validate_only:
                path = znodes.broker_config_path(broker_id)
                await self._writer.write([_put(path, config, is_known=broker_id in known)])
                self._image.apply(BrokerConfigChanged(broker_id, config))
            return config

        return await self._events.run(event)


def _put(path: str, config: Mapping[str, str], *, is_known: bool) -> Operation:
    data = znodes.encode_config(config)
    return Set(path, data) if is_known else Create(path, data)


def _without_nulls(config: Mapping[str, str | None]) -> dict[str, str]:
    nulls = sorted(name for name, value in config.items() if value is None)
    if nulls:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"No value is given for {', '.join(nulls)}; leave it out."
        )
    return {name: value for name, value in config.items() if value is not None}


def _altered(
    old: Mapping[str, str],
    alterations: Sequence[Alteration],
    list_default: Callable[[str], str | None],
) -> dict[str, str]:
    names = [alteration.name for alteration in alterations]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"{', '.join(twice)} is to be changed more than once."
        )
    config = dict(old)
    for alteration in alterations:
        name, value = alteration.name, alteration.value
        if alteration.operation is AlterOperation.DELETE:
            config.pop(name, None)
            continue
        if value is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"No value is given for {name}.")
        if alteration.operation is AlterOperation.SET:
            config[name] = value
            continue
        default = list_default(name)
        if default is None:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"{name} is not a list: nothing can be appended to it or subtracted from it. Set"
                " it instead.",
            )
        config[name] = _list_changed(config.get(name, default), alteration.operation, value)
    return config


def _list_changed(old: str, operation: AlterOperation, value: str) -> str:
    items = [item for item in old.split(",") if item]
    for item in value.split(","):
        if operation is AlterOperation.APPEND:
            if item not in items:
                items.append(item)
        elif item in items:
            items.remove(item)
    return ",".join(items)
