"""What a ConsumerGroupHeartbeat must look like."""

from __future__ import annotations

from ottla.config.broker import BrokerConfig
from ottla.coordinators.groups.consumer.member import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
)
from ottla.coordinators.groups.consumer.update import supported_assignors
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

MEMBER_MAKES_ITS_ID_SINCE = 1
"""Before, a member that did not hear its id came again as another (KIP-1082)."""


def check_heartbeat(
    request: ConsumerGroupHeartbeatRequest, api_version: int, config: BrokerConfig
) -> None:
    """Raises KafkaError, nearly always INVALID_REQUEST."""
    epoch = request.member_epoch
    if epoch > JOIN_EPOCH or epoch == LEAVE_EPOCH or api_version >= MEMBER_MAKES_ITS_ID_SINCE:
        _check_not_blank("MemberId", request.member_id)
    _check_not_blank("GroupId", request.group_id)
    _check_not_blank("InstanceId", request.instance_id)
    _check_not_blank("RackId", request.rack_id)
    if epoch == JOIN_EPOCH:
        _check_join(request)
    elif epoch == LEAVE_STATIC_EPOCH and request.instance_id is None:
        raise _invalid("InstanceId can't be null.")
    elif epoch < LEAVE_STATIC_EPOCH:
        raise _invalid("MemberEpoch is invalid.")
    supported = supported_assignors(config)
    if request.server_assignor is not None and request.server_assignor not in supported:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: "
            f"{', '.join(supported)}.",
        )


def _check_join(request: ConsumerGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == -1:
        raise _invalid("RebalanceTimeoutMs must be provided in first request.")
    if request.topic_partitions is None or request.topic_partitions:
        raise _invalid("TopicPartitions must be empty when (re-)joining.")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise _invalid(
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when "
            "(re-)joining."
        )


def _check_not_blank(what: str, value: str | None) -> None:
    if value is not None and not value.strip():
        raise _invalid(f"{what} can't be empty.")


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
