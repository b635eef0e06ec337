"""The settings of a subscription to metrics of clients (KIP-714).

They are checked, kept and described as in Kafka, for tools that set them. Nothing comes of them
here: like a broker of Kafka without a plug-in for metrics, this one asks clients for none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ottla.config.definition import INT, LIST, Setting, setting, settings_of
from ottla.kernel.errors import ErrorCode, KafkaError

INTERVAL_MS_MIN, INTERVAL_MS_MAX = 100, 3_600_000

_MATCHED = frozenset(
    {
        "client_id",
        "client_instance_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    }
)


@dataclass(frozen=True, slots=True)
class ClientMetricsConfig:
    """What one subscription asks for. Only its declarations are used."""

    interval_ms: int = setting(
        INT, 300_000, doc="How often clients push metrics: every 100 ms to once an hour."
    )
    match: tuple[str, ...] = setting(
        LIST, (), doc="Which clients: properties and regular expressions, as in client_id=app-.*"
    )
    metrics: tuple[str, ...] = setting(
        LIST, (), doc="Prefixes of the names of metrics; * for all of them."
    )


CLIENT_METRICS_SETTINGS: dict[str, Setting] = settings_of(ClientMetricsConfig)


def validate_client_metrics(overrides: Mapping[str, str]) -> None:
    """Raises KafkaError unless a subscription may have these settings."""
    for name in overrides:
        if name not in CLIENT_METRICS_SETTINGS:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"Unknown client metrics configuration: {name}"
            )
    values = {name: CLIENT_METRICS_SETTINGS[name].parse(text) for name, text in overrides.items()}
    interval_ms = values.get("interval.ms", INTERVAL_MS_MIN)
    assert isinstance(interval_ms, int)
    if not INTERVAL_MS_MIN <= interval_ms <= INTERVAL_MS_MAX:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Invalid value {interval_ms} for interval.ms: it must be from {INTERVAL_MS_MIN} to "
            f"{INTERVAL_MS_MAX} (1 hour)",
        )
    patterns = values.get("match", ())
    assert isinstance(patterns, tuple)
    for pattern in patterns:
        _check_pattern(pattern)


def _check_pattern(pattern: str) -> None:
    name, _, expression = pattern.partition("=")
    if name.strip() in _MATCHED and expression and "=" not in expression:
        try:
            re.compile(expression.strip())
        except re.error:
            pass
        else:
            return
    raise KafkaError(ErrorCode.INVALID_CONFIG, f"Illegal client matching pattern: {pattern}")
