"""The settings of a group.

Kafka 4.3 has more of them, for share groups and Streams groups. Those groups are not here, so their
settings are refused as unknown rather than kept without effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ottla.config.definition import (
    INT,
    Setting,
    UnknownSetting,
    at_least,
    setting,
    settings_of,
)
from ottla.kernel.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """What holds for one consumer group (KIP-848). Made anew for each use, since the settings of
    the broker below it may change."""

    consumer_assignment_interval_ms: int = setting(
        INT,
        1000,
        at_least(0),
        doc="How long assignments of the group are at least apart.",
        synonyms=("group.consumer.assignment.interval.ms",),
    )
    consumer_heartbeat_interval_ms: int = setting(
        INT,
        5000,
        at_least(1),
        doc="How often members of the group send heartbeats.",
        synonyms=("group.consumer.heartbeat.interval.ms",),
    )
    consumer_session_timeout_ms: int = setting(
        INT,
        45_000,
        at_least(1),
        doc="After how long without heartbeat a member leaves the group.",
        synonyms=("group.consumer.session.timeout.ms",),
    )

    @classmethod
    def resolve(cls, overrides: Mapping[str, str], broker: BrokerConfig) -> GroupConfig:
        """The broker's settings with the group's own over them. The broker's limits may have
        changed since those were set: then the nearest value that they allow counts."""
        if not overrides:
            return broker.group_defaults
        values = {}
        for name, value in _given(overrides, broker).items():
            low, high = _limits(name, broker)
            values[_attribute(name)] = max(low, min(value, high))
        return cls(**values)


GROUP_SETTINGS: dict[str, Setting] = settings_of(GroupConfig)


def validate_group(overrides: Mapping[str, str], broker: BrokerConfig) -> None:
    """Raises KafkaError(INVALID_CONFIG) unless a group may have these settings."""
    for name in overrides:
        if name not in GROUP_SETTINGS:
            raise UnknownSetting("group", name, GROUP_SETTINGS)
    given = _given(overrides, broker)
    for name, value in given.items():
        low, high = _limits(name, broker)
        if value < low:
            _refuse(f"{name} must be at least {_limit_name(name, 'min')}, which is {low}")
        if value > high:
            _refuse(f"{name} must be at most {_limit_name(name, 'max')}, which is {high}")
    beat, session = "consumer.heartbeat.interval.ms", "consumer.session.timeout.ms"
    if given[session] <= given[beat]:
        _refuse(f"{session} must be more than {beat}, which is {given[beat]}")


def group_defaults(broker: BrokerConfig) -> GroupConfig:
    """What a group without settings of its own has. Use `broker.group_defaults`, which keeps
    it."""
    return GroupConfig(
        **{
            _attribute(name): getattr(broker, _attribute(declared.synonyms[0]))
            for name, declared in GROUP_SETTINGS.items()
        }
    )


def _given(overrides: Mapping[str, str], broker: BrokerConfig) -> dict[str, int]:
    """Names that are unknown are passed over: another version may have stored them."""
    values: dict[str, Any] = {}
    for name, declared in GROUP_SETTINGS.items():
        text = overrides.get(name)
        if text is None:
            values[name] = getattr(broker.group_defaults, _attribute(name))
        else:
            values[name] = declared.parse(text)
    return values


def _limits(name: str, broker: BrokerConfig) -> tuple[int, int]:
    low, high = (getattr(broker, _attribute(_limit_name(name, which))) for which in ("min", "max"))
    return low, high


def _limit_name(name: str, which: str) -> str:
    return f"group.consumer.{which}.{name.removeprefix('consumer.')}"


def _attribute(name: str) -> str:
    return name.replace(".", "_")


def _refuse(why: str) -> None:
    raise KafkaError(ErrorCode.INVALID_CONFIG, why)
