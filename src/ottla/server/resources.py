"""The things that have settings, as DescribeConfigs and its kin name them."""

from __future__ import annotations

from enum import IntEnum

from ottla.controller.topic_names import check_topic_name
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.server.services import Services


class ResourceType(IntEnum):
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


def resource_type(code: int) -> ResourceType:
    """Raises KafkaError for what has no settings here."""
    if code == ResourceType.TOPIC:
        return ResourceType.TOPIC
    if code == ResourceType.BROKER:
        return ResourceType.BROKER
    raise KafkaError(
        ErrorCode.INVALID_REQUEST,
        f"Resource type {code} is not supported: topics (2) and brokers (4) have settings.",
    )


def check_topic(services: Services, name: str) -> None:
    check_topic_name(name)
    if name not in services.image.topics:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic {name!r}.")


def broker_of(services: Services, name: str) -> int | None:
    """The broker that a resource names; None stands for the settings of all brokers."""
    if name == "":
        return None
    if name != str(services.broker_id):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"This is broker {services.broker_id}, and the request is for broker {name!r}.",
        )
    return services.broker_id
