"""What AlterConfigs and IncrementalAlterConfigs make of the settings that were there.

Pure functions from overrides to overrides: whoever calls them stores the result. They raise
KafkaError with the code and, where it helps, the words with which Kafka 4.3 refuses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from ottla.config.broker import BrokerConfig, known_setting
from ottla.config.client_metrics import validate_client_metrics
from ottla.config.definition import LIST, Setting, value_text
from ottla.config.dynamic import validate_dynamic
from ottla.config.group import GROUP_SETTINGS, validate_group
from ottla.config.topic import TOPIC_SETTINGS, validate_overrides
from ottla.kernel.errors import ErrorCode, KafkaError


class AlterOperation(IntEnum):
    """IncrementalAlterConfigs' `config_operation`."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigChange(NamedTuple):
    name: str
    operation: int
    value: str | None


def alter_topic(
    current: Mapping[str, str], changes: Sequence[ConfigChange], broker: BrokerConfig
) -> dict[str, str]:
    """The topic's overrides after an IncrementalAlterConfigs."""
    altered = _altered(current, changes, TOPIC_SETTINGS)
    validate_overrides(altered, broker)
    return altered


def alter_group(
    current: Mapping[str, str], changes: Sequence[ConfigChange], broker: BrokerConfig
) -> dict[str, str]:
    """The group's overrides after an IncrementalAlterConfigs."""
    altered = _altered(current, changes, GROUP_SETTINGS)
    validate_group(altered, broker)
    return altered


def alter_client_metrics(
    current: Mapping[str, str], changes: Sequence[ConfigChange]
) -> dict[str, str]:
    """The subscription's settings after an IncrementalAlterConfigs. Kafka lets nobody append to
    its lists, nor subtract from them."""
    altered = _altered(current, changes, {})
    validate_client_metrics(altered)
    return altered


def _altered(
    current: Mapping[str, str], changes: Sequence[ConfigChange], settings: Mapping[str, Setting]
) -> dict[str, str]:
    check_changes(changes, settings)
    altered = dict(current)
    for change in changes:
        _apply(altered, change, settings.get(change.name))
    return altered


def check_changes(changes: Sequence[ConfigChange], settings: Mapping[str, Setting]) -> None:
    """What Kafka looks at before it looks at the resource: whether its names and operations can be
    those of any resource with these settings."""
    for change in _checked(changes):
        listed = settings.get(change.name)
        if change.operation >= AlterOperation.APPEND and (listed is None or listed.type != LIST):
            operation = AlterOperation(change.operation).name
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"Can't {operation} to key {change.name} because its type is not LIST.",
            )


def alter_broker(
    current: Mapping[str, str],
    changes: Sequence[ConfigChange],
    broker: BrokerConfig,
    *,
    per_broker: bool,
) -> dict[str, str]:
    """The dynamic settings of this broker, or of all, after an IncrementalAlterConfigs."""
    altered = dict(current)
    for change in _checked(changes):
        listed: Setting | None = None
        if change.operation >= AlterOperation.APPEND:
            listed = known_setting(change.name)
            if listed.type != LIST:
                operation = AlterOperation(change.operation).name.lower()
                raise KafkaError(
                    ErrorCode.INVALID_CONFIG,
                    f"Config value {operation} is not allowed for config key: {change.name}",
                )
        _apply(altered, change, listed)
    validate_dynamic(altered, broker, per_broker=per_broker)
    return altered


def replace_topic(
    configs: Sequence[tuple[str, str | None]], broker: BrokerConfig
) -> dict[str, str]:
    """The topic's overrides after an AlterConfigs, which says them all."""
    replaced = _all_set(configs)
    validate_overrides(replaced, broker)
    return replaced


def replace_group(
    configs: Sequence[tuple[str, str | None]], broker: BrokerConfig
) -> dict[str, str]:
    replaced = _all_set(configs)
    validate_group(replaced, broker)
    return replaced


def replace_client_metrics(configs: Sequence[tuple[str, str | None]]) -> dict[str, str]:
    replaced = _all_set(configs)
    validate_client_metrics(replaced)
    return replaced


def replace_broker(
    configs: Sequence[tuple[str, str | None]], broker: BrokerConfig, *, per_broker: bool
) -> dict[str, str]:
    replaced = _all_set(configs)
    validate_dynamic(replaced, broker, per_broker=per_broker)
    return replaced


def _all_set(configs: Sequence[tuple[str, str | None]]) -> dict[str, str]:
    return {change.name: change.value or "" for change in _checked(set_changes(configs))}


def set_changes(configs: Sequence[tuple[str, str | None]]) -> list[ConfigChange]:
    return [ConfigChange(name, AlterOperation.SET, value) for name, value in configs]


def _checked(changes: Sequence[ConfigChange]) -> Sequence[ConfigChange]:
    if len({change.name for change in changes}) != len(changes):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    for change in changes:
        if not AlterOperation.SET <= change.operation <= AlterOperation.SUBTRACT:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"Unknown operations type {change.operation}"
            )
    nulls = [c.name for c in changes if c.value is None and c.operation != AlterOperation.DELETE]
    if nulls:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(nulls)}"
        )
    return changes


def _apply(altered: dict[str, str], change: ConfigChange, listed: Setting | None) -> None:
    value = change.value or ""
    if change.operation == AlterOperation.SET:
        altered[change.name] = value
    elif change.operation == AlterOperation.DELETE:
        # Also a name that nobody knows: that is how one gets rid of it.
        altered.pop(change.name, None)
    else:
        assert listed is not None, "APPEND and SUBTRACT are for lists only"
        # Kafka starts from its own default here, not from what the broker's settings say.
        present = altered.get(change.name, value_text(listed.default)) or ""
        old, items = [item for item in present.split(",") if item], _split(value)
        if change.operation == AlterOperation.APPEND:
            new = [*old, *(item for item in items if item not in old)]
        else:
            new = [item for item in old if item not in items]
        altered[change.name] = ",".join(new)


def _split(text: str) -> list[str]:
    """As Java does, and as they come: "" is one empty item, which is refused when all is checked,
    and empty ones at the end are none."""
    items = text.rstrip(",")
    return items.split(",") if items or not text else []
