"""Which broker settings may change while the broker runs, and to what (KIP-226)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ottla.config.broker import LISTENER_PREFIX, BrokerConfig, known_setting
from ottla.config.definition import PER_BROKER, READ_ONLY, UnknownSetting
from ottla.kernel.errors import ErrorCode, KafkaError

# Key stores and the like belong to a listener: listener.name.NAME.ssl.keystore.location.
_PER_LISTENER = (
    "ssl.key.password",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
)

# With a listener's prefix these may be set for the whole cluster, others not.
_CLUSTER_LEVEL_OF_LISTENER = ("max.connections", "max.connection.creation.rate")


class Ignored(NamedTuple):
    name: str
    why: str


def validate_dynamic(
    settings: Mapping[str, str], broker: BrokerConfig, *, per_broker: bool
) -> BrokerConfig:
    """What the broker's settings would be with these as its own dynamic ones, or as those of
    the whole cluster. Raises KafkaError(INVALID_REQUEST): Kafka's code for this, though
    INVALID_CONFIG would say it better (KAFKA-13609)."""
    _refuse("Cannot update these configs dynamically", [n for n in settings if _is_static(n)])
    _refuse(
        "These security configs can be dynamically updated only per-listener using the listener "
        "prefix",
        [name for name in settings if name in _PER_LISTENER],
    )
    if not per_broker:
        _refuse(
            "Cannot update these configs at default cluster level, broker id must be specified",
            [name for name in settings if _is_per_broker(name)],
        )
    elif "min.insync.replicas" in settings:
        # The controller judges by the cluster's who is eligible to lead (KIP-966).
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            "Broker-level min.insync.replicas cannot be altered while ELR is enabled.",
        )
    try:
        if per_broker:
            return broker.with_dynamic(settings, broker.dynamic_default)
        return broker.with_dynamic(broker.dynamic, settings)
    except KafkaError as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, error.message) from error


def usable_dynamic(
    settings: Mapping[str, str], broker: BrokerConfig, *, per_broker: bool
) -> tuple[dict[str, str], list[Ignored]]:
    """What of the stored settings can be used, and what not and why. A broker must start, and
    take a change, even if another version stored something that this one cannot take."""
    usable: dict[str, str] = {}
    ignored: list[Ignored] = []
    for name, text in settings.items():
        try:
            validate_dynamic({**usable, name: text}, broker, per_broker=per_broker)
        except KafkaError as error:
            ignored.append(Ignored(name, str(error)))
        else:
            usable[name] = text
    return usable, ignored


def _is_static(name: str) -> bool:
    try:
        return known_setting(name).change == READ_ONLY
    except UnknownSetting as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, error.message) from None


def _is_per_broker(name: str) -> bool:
    prefixed = LISTENER_PREFIX.fullmatch(name)
    if prefixed is not None:
        return prefixed[1] not in _CLUSTER_LEVEL_OF_LISTENER
    return known_setting(name).change == PER_BROKER


def _refuse(why: str, names: list[str]) -> None:
    if names:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{why}: [{', '.join(sorted(names))}]")
