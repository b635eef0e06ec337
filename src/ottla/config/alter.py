"""What AlterConfigs and IncrementalAlterConfigs make of the settings that were there.

Pure functions from overrides to overrides: whoever calls them stores the result. They raise
KafkaError with the code and, where it helps, the words with which Kafka 4.3 refuses.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
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
    _check(changes, settings)
    altered = dict(current)
    for change in changes:
        _apply(altered, change, settings.get(change.name))
    return altered


def checking(
    changes: Iterable[ConfigChange], settings: Mapping[str, Setting] | None = None
) -> Iterator[None]:
    """What Kafka looks at before it looks at the resource: whether names and operations can be
    those of any resource with these settings, if given. Raises KafkaError; a step a change, since a
    request may have a hundred thousand."""
    names: set[str] = set()
    nulls: list[str] = []
    unknown: ConfigChange | None = None
    not_listed: ConfigChange | None = None
    for change in changes:
        yield
        name, operation, value = change
        if name in names:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
        names.add(name)
        if not AlterOperation.SET <= operation <= AlterOperation.SUBTRACT:
            unknown = unknown or change
        elif value is None and operation != AlterOperation.DELETE:
            nulls.append(name)
        elif settings is not None and operation >= AlterOperation.APPEND:
            listed = settings.get(name)
            if listed is None or listed.type != LIST:
                not_listed = not_listed or change
    if unknown is not None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown operations type {unknown.operation}")
    if nulls:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(nulls)}"
        )
    if not_listed is not None:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Can't {AlterOperation(not_listed.operation).name} to key {not_listed.name} because "
            "its type is not LIST.",
        )


class RelevantChanges:
    """Of all the changes that a resource is asked for, those that make a difference: whoever plans
    holds up all other changes of the cluster."""

    def __init__(self) -> None:
        self._changes: list[ConfigChange] = []
        self._has_unknown = False
        self._unknown_deleted: set[str] = set()

    def take(self, change: ConfigChange, names: Container[str]) -> None:
        """One after another, as they come. Of those that set what is none of these names the first
        is enough: it is the one that is refused."""
        if change.name in names:
            self._changes.append(change)
        elif change.operation == AlterOperation.DELETE:
            self._unknown_deleted.add(change.name)
        elif not self._has_unknown:
            self._has_unknown = True
            self._changes.append(change)

    def of(self, current: Iterable[str]) -> list[ConfigChange]:
        """For a resource that has settings of these names."""
        gone = [name for name in current if name in self._unknown_deleted]
        return [*(ConfigChange(name, AlterOperation.DELETE, None) for name in gone), *self._changes]

    def set(self) -> list[tuple[str, str | None]]:
        """For a resource that has just these settings then."""
        return [(change.name, change.value) for change in self._changes]


def alter_broker(
    current: Mapping[str, str],
    changes: Sequence[ConfigChange],
    broker: BrokerConfig,
    *,
    per_broker: bool,
) -> dict[str, str]:
    """The dynamic settings of this broker, or of all, after an IncrementalAlterConfigs."""
    _check(changes)
    altered = dict(current)
    for change in changes:
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
    _check(set_changes(configs))
    return {name: value or "" for name, value in configs}


def set_changes(configs: Iterable[tuple[str, str | None]]) -> Iterator[ConfigChange]:
    return (ConfigChange(name, AlterOperation.SET, value) for name, value in configs)


def _check(changes: Iterable[ConfigChange], settings: Mapping[str, Setting] | None = None) -> None:
    for _ in checking(changes, settings):
        pass


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
