"""What the handlers of group requests share."""

from __future__ import annotations

from ottla.coordinators.groups.context import Client
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.server.context import RequestContext

GROUP_OPERATIONS = sum(1 << code for code in (3, 6, 8, 10, 11))
"""With no authorizer everyone may do everything; the bits are Kafka's AclOperation codes:
read, delete, describe, and to see and change settings."""


def client_of(context: RequestContext) -> Client:
    return Client(context.client_id or "", f"/{context.peer_host}", context.api_version)


def check_group_id(group_id: str) -> None:
    if not group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID, "a group id is not empty")
