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


_WITH_SETTINGS = (
    ResourceType.TOPIC,
    ResourceType.BROKER,
    ResourceType.CLIENT_METRICS,
    ResourceType.GROUP,
)


def resource_type(code: int) -> ResourceType:
    """Raises KafkaError for what has no settings here."""
    if code in _WITH_SETTINGS:
        return ResourceType(code)
    raise KafkaError(
        ErrorCode.INVALID_REQUEST,
        f"Unknown resource type {code}: topics (2), brokers (4), client metrics (16) and groups "
        "(32) have settings.",
    )


def check_topic(services: Services, name: str) -> None:
    check_topic_name(name)
    if name not in services.image.topics:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist."
        )


def check_group(name: str) -> None:
    """Any other name can be that of a group, whether it is there yet or not."""
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "There are no settings of all groups.")


def check_subscription(name: str) -> None:
    """To metrics of clients."""
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")


def broker_of(services: Services, name: str) -> int | None:
    """The broker that a resource names; None stands for the settings of all brokers."""
    if name == "":
        return None
    if not name.lstrip("-").isdecimal():
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}"
        )
    if name != str(services.broker_id):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {services.broker_id} or empty string, but received "
            f"{name}",
        )
    return services.broker_id


def broker_to_change(services: Services, name: str) -> int | None:
    """The controller changes the settings of any broker: that one has passed them on."""
    if name.isdecimal() and name == str(int(name)) and int(name) in services.image.brokers:
        return int(name)
    return broker_of(services, name)
