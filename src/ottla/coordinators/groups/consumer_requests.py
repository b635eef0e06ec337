"""What a ConsumerGroupHeartbeat must look like."""

from __future__ import annotations

from ottla.coordinators.groups.consumer_member import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
)
from ottla.coordinators.groups.consumer_update import supported_assignors
from ottla.kernel.config.broker import BrokerConfig
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
        _check_not_blank("member id", request.member_id)
    _check_not_blank("group id", request.group_id)
    _check_not_blank("instance id", request.instance_id)
    _check_not_blank("rack id", request.rack_id)
    if epoch == JOIN_EPOCH:
        _check_join(request)
    elif epoch == LEAVE_STATIC_EPOCH and request.instance_id is None:
        raise _invalid("only a static member leaves for a while: an instance id is missing")
    elif epoch < LEAVE_STATIC_EPOCH:
        raise _invalid(f"there is no member epoch {epoch}")
    supported = supported_assignors(config)
    if request.server_assignor is not None and request.server_assignor not in supported:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"there is no assignor {request.server_assignor!r} here, but {', '.join(supported)}",
        )


def _check_join(request: ConsumerGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == -1:
        raise _invalid("a member that joins must say its rebalance time-out")
    if request.topic_partitions is None or request.topic_partitions:
        raise _invalid("a member that joins must say that it has no partitions")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise _invalid("a member that joins must say what it subscribes to")


def _check_not_blank(what: str, value: str | None) -> None:
    if value is not None and not value.strip():
        raise _invalid(f"the {what} is empty")


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
