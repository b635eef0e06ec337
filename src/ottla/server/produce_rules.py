"""Who may write where, whatever the records are: the rules of a produce that look at its head only.

`handlers.produce` asks them for each request, `repeated_produce` once for all requests that have
the same head.
"""

from __future__ import annotations

from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import TopicId
from ottla.kernel.internal_topics import is_internal
from ottla.replication.replica_manager import ReplicaManager

ACKS_NONE = 0
VALID_ACKS = (-1, ACKS_NONE, 1)
ADMIN_CLIENT_ID = "__admin_client"
"""Under this name Kafka lets anyone write to the topics of brokers."""


def topic_name(replicas: ReplicaManager, name: str, topic_id: TopicId) -> str:
    """Of a topic that is named by the one or the other. Empty for an id that is not known here."""
    return name or replicas.topic_name(topic_id) or ""


def refusal(name: str, acks: int, client_id: str | None) -> KafkaError | None:
    if acks not in VALID_ACKS:
        return KafkaError(ErrorCode.INVALID_REQUIRED_ACKS, "acks must be -1, 0 or 1")
    if is_internal(name) and client_id != ADMIN_CLIENT_ID:
        return KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"only brokers write to {name}")
    return None
