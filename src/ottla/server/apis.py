"""Which APIs this broker answers, and where their handlers are: one file each in `handlers/`.

Advertise exactly what works. Handlers are imported with their first request: a broker that has
just started has not paid for the APIs that nobody called.
"""

from __future__ import annotations

import importlib
from collections.abc import Awaitable, Callable
from typing import Any

from ottla.server.context import RequestContext
from ottla.server.services import Services
from ottla.wire.api import ApiKey
from ottla.wire.schema import parse_versions

Handler = Callable[[Services, Any, RequestContext], Any | Awaitable[Any] | None]
"""Takes a decoded request, returns its response: at once, later, or never (acks=0)."""

ANSWERED = (
    ApiKey.PRODUCE,
    ApiKey.FETCH,
    ApiKey.LIST_OFFSETS,
    ApiKey.METADATA,
    ApiKey.OFFSET_COMMIT,
    ApiKey.OFFSET_FETCH,
    ApiKey.FIND_COORDINATOR,
    ApiKey.JOIN_GROUP,
    ApiKey.HEARTBEAT,
    ApiKey.LEAVE_GROUP,
    ApiKey.SYNC_GROUP,
    ApiKey.DESCRIBE_GROUPS,
    ApiKey.LIST_GROUPS,
    ApiKey.API_VERSIONS,
    ApiKey.CREATE_TOPICS,
    ApiKey.DELETE_TOPICS,
    ApiKey.DELETE_RECORDS,
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.END_TXN,
    ApiKey.WRITE_TXN_MARKERS,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.DESCRIBE_ACLS,
    ApiKey.CREATE_ACLS,
    ApiKey.DELETE_ACLS,
    ApiKey.DESCRIBE_CONFIGS,
    ApiKey.ALTER_CONFIGS,
    ApiKey.DESCRIBE_LOG_DIRS,
    ApiKey.CREATE_PARTITIONS,
    ApiKey.DELETE_GROUPS,
    ApiKey.ELECT_LEADERS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    ApiKey.LIST_PARTITION_REASSIGNMENTS,
    ApiKey.OFFSET_DELETE,
    ApiKey.DESCRIBE_CLUSTER,
    ApiKey.DESCRIBE_PRODUCERS,
    ApiKey.DESCRIBE_TRANSACTIONS,
    ApiKey.LIST_TRANSACTIONS,
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.CONSUMER_GROUP_DESCRIBE,
    ApiKey.LIST_CONFIG_RESOURCES,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS,
)

ANSWERED_TO_BROKERS = {
    # The first versions with topic ids, leader epochs and broker epochs, each where it has them.
    ApiKey.LEADER_AND_ISR: parse_versions("5-7"),
    ApiKey.STOP_REPLICA: parse_versions("3-4"),
    ApiKey.UPDATE_METADATA: parse_versions("7-8"),
    ApiKey.CONTROLLED_SHUTDOWN: parse_versions("2-3"),
    ApiKey.ALTER_PARTITION: parse_versions("0-3"),
    ApiKey.ALLOCATE_PRODUCER_IDS: parse_versions("0"),
    ApiKey.GET_REPLICA_LOG_INFO: parse_versions("0"),
}
"""Among brokers, on the listener `inter.broker.listener.name` only, and listed nowhere: who asks
has these versions built in. They delete logs and change who leads."""


def handler_of(key: ApiKey) -> Handler:
    module = importlib.import_module(f"ottla.server.handlers.{key.name.lower()}")
    handler: Handler = module.handle
    return handler


def large_handler_of(key: ApiKey) -> Handler:
    """For a request of so many elements that it was decoded in slices. Most handlers are coroutines
    that take any number; those of the data path, which are not, have another one beside them."""
    module = importlib.import_module(f"ottla.server.handlers.{key.name.lower()}")
    handler: Handler = getattr(module, "handle_large", module.handle)
    return handler
