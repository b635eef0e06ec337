"""What DescribeConfigs tells of a topic, a broker, a group or a subscription to metrics of clients:
values, and where they come from."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from ottla.config.broker import (
    BROKER_SETTINGS,
    LISTENER_PREFIX,
    BrokerConfig,
    base_name,
    known_setting,
)
from ottla.config.client_metrics import CLIENT_METRICS_SETTINGS
from ottla.config.definition import (
    READ_ONLY,
    ConfigSource,
    ConfigType,
    Setting,
    value_text,
)
from ottla.config.group import GROUP_SETTINGS, GroupConfig
from ottla.config.topic import TOPIC_SETTINGS, TopicConfig

# Broker settings that say the same thing in other units, in Kafka's order.
_SYNONYMS = (
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
)


class Synonym(NamedTuple):
    name: str
    value: str | None
    source: ConfigSource


class Described(NamedTuple):
    name: str
    value: str | None
    read_only: bool
    source: ConfigSource
    is_sensitive: bool
    synonyms: list[Synonym]
    """Every place where the value is set, the one that counts first; the default last."""
    type: ConfigType
    documentation: str | None


def describe_topic(
    overrides: Mapping[str, str], broker: BrokerConfig, names: Collection[str] | None = None
) -> list[Described]:
    """`names` None or empty means all. A stored name that this version does not know is shown
    as Kafka shows it: sensitive, since nobody can say that it is not."""
    shown = {name for name, declared in TOPIC_SETTINGS.items() if not declared.internal}
    shown.update(overrides)
    return [
        _describe_topic_setting(name, overrides, broker)
        for name in sorted(shown)
        if not names or name in names
    ]


def _describe_topic_setting(
    name: str, overrides: Mapping[str, str], broker: BrokerConfig
) -> Described:
    declared = TOPIC_SETTINGS.get(name)
    if declared is None:
        return _unknown(name, ConfigSource.TOPIC_CONFIG)
    default = _default_value(name, broker.topic_defaults)
    return _with_override(declared, overrides, default, ConfigSource.TOPIC_CONFIG, broker)


def _default_value(name: str, defaults: TopicConfig | GroupConfig) -> str | None:
    return value_text(getattr(defaults, name.replace(".", "_")))


def describe_group(
    overrides: Mapping[str, str], broker: BrokerConfig, names: Collection[str] | None = None
) -> list[Described]:
    """Any group, also one that is not there: it may come."""
    return [
        _describe_group_setting(name, overrides, broker)
        for name in sorted(GROUP_SETTINGS.keys() | overrides.keys())
        if not names or name in names
    ]


def _describe_group_setting(
    name: str, overrides: Mapping[str, str], broker: BrokerConfig
) -> Described:
    declared = GROUP_SETTINGS.get(name)
    if declared is None:
        return _unknown(name, ConfigSource.GROUP_CONFIG)
    default = _default_value(name, broker.group_defaults)
    return _with_override(declared, overrides, default, ConfigSource.GROUP_CONFIG, broker)


def describe_client_metrics(
    overrides: Mapping[str, str], names: Collection[str] | None = None
) -> list[Described]:
    """Any subscription, also one that is not there. It stands over no settings of the broker."""
    described: list[Described] = []
    for name, declared in CLIENT_METRICS_SETTINGS.items():
        if names and name not in names:
            continue
        value, own = value_text(declared.default), list[Synonym]()
        if name in overrides:
            value = value_text(declared.parse(overrides[name]))
            own.append(Synonym(name, value, ConfigSource.CLIENT_METRICS_CONFIG))
        described.append(_described(declared, name, value, own, read_only=False))
    return described


def _with_override(
    declared: Setting,
    overrides: Mapping[str, str],
    default: str | None,
    source: ConfigSource,
    broker: BrokerConfig,
) -> Described:
    """A setting that something has for itself, over one of the broker."""
    name, value = declared.name, default
    synonyms = _synonyms(declared.synonyms[0], broker) if declared.synonyms else []
    if name in overrides:
        value = value_text(declared.parse(overrides[name]))
        synonyms.insert(0, Synonym(name, value, source))
    return _described(declared, name, value, synonyms, read_only=False)


def describe_broker(broker: BrokerConfig, names: Collection[str] | None = None) -> list[Described]:
    """One broker: everything that Ottla goes by, and what else was set."""
    shown = {name for name, declared in BROKER_SETTINGS.items() if not declared.internal}
    shown.update(broker.given)
    return [
        _describe_broker_setting(name, broker)
        for name in sorted(shown)
        if not names or name in names
    ]


def _describe_broker_setting(name: str, broker: BrokerConfig) -> Described:
    declared = known_setting(name)
    synonyms = _synonyms(name, broker)
    value = value_text(broker.given.get(name, declared.default))
    read_only = declared.change == READ_ONLY
    return _described(declared, name, value, synonyms, read_only)


def describe_broker_defaults(
    broker: BrokerConfig, names: Collection[str] | None = None
) -> list[Described]:
    """The cluster's default (the broker resource without a name): only what was set there."""
    described: list[Described] = []
    for name, text in sorted(broker.dynamic_default.items()):
        if names and name not in names:
            continue
        declared = known_setting(name)
        value = None if declared.is_sensitive else text
        own = Synonym(name, value, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)
        described.append(_described(declared, name, value, [own], declared.change == READ_ONLY))
    return described


def _synonyms(name: str, broker: BrokerConfig) -> list[Synonym]:
    names = _synonym_names(name)
    is_sensitive = known_setting(name).is_sensitive
    sources: Iterable[tuple[Mapping[str, str | None], ConfigSource]] = (
        (dict(broker.dynamic), ConfigSource.DYNAMIC_BROKER_CONFIG),
        (dict(broker.dynamic_default), ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
        (dict(broker.static), ConfigSource.STATIC_BROKER_CONFIG),
        ({n: _default_text(n) for n in names}, ConfigSource.DEFAULT_CONFIG),
    )
    found = [
        Synonym(synonym, None if is_sensitive else values[synonym], source)
        for values, source in sources
        for synonym in names
        if values.get(synonym) is not None
    ]
    # Kafka begins with the setting itself: log.retention.ms which is nowhere set has no
    # synonyms, though the value that counts may come from log.retention.hours.
    while found and found[0].name != name:
        found.pop(0)
    return found


def _default_text(name: str) -> str | None:
    return value_text(BROKER_SETTINGS[name].default) if name in BROKER_SETTINGS else None


def _synonym_names(name: str) -> tuple[str, ...]:
    for names in _SYNONYMS:
        if name in names:
            return names
    if name == "log.flush.interval.ms":
        return name, "log.flush.scheduler.interval.ms"
    if LISTENER_PREFIX.fullmatch(name):
        return name, base_name(name)
    return (name,)


def _described(
    declared: Setting, name: str, value: str | None, synonyms: list[Synonym], read_only: bool
) -> Described:
    return Described(
        name=name,
        value=None if declared.is_sensitive else value,
        read_only=read_only,
        source=synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG,
        is_sensitive=declared.is_sensitive,
        synonyms=synonyms,
        type=declared.type,
        documentation=declared.doc,
    )


def _unknown(name: str, source: ConfigSource) -> Described:
    """That another version stored."""
    synonyms = [Synonym(name, None, source)]
    return Described(name, None, False, source, True, synonyms, ConfigType.UNKNOWN, None)
