"""The APIs that have messages here: their keys, their versions, and where their messages are. Some
are spoken among brokers only, in the versions of Kafka 3.9, the last to run beside ZooKeeper. What
a broker answers stands in `server/apis.py`.

A message is imported with its first use: forty modules cost 10 ms of every start, and a client asks
which versions there are before it asks for anything else. So versions are written here as well; the
tests hold them against the messages' own.
"""

from __future__ import annotations

import functools
import importlib
from enum import IntEnum
from typing import NamedTuple

from ottla.wire.schema import Request, Response, parse_versions


class ApiKey(IntEnum):
    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    LEADER_AND_ISR = 4
    STOP_REPLICA = 5
    UPDATE_METADATA = 6
    CONTROLLED_SHUTDOWN = 7
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    DESCRIBE_LOG_DIRS = 35
    CREATE_PARTITIONS = 37
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    ALTER_PARTITION = 56
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    GET_REPLICA_LOG_INFO = 93


class Api(NamedTuple):
    key: ApiKey
    versions: range
    """What can be decoded and encoded."""
    flexible_since: int | None
    """From which version on there are compact lengths and tagged fields (KIP-482)."""

    @property
    def request(self) -> type[Request]:
        return _messages(self.key)[0]

    @property
    def response(self) -> type[Response]:
        return _messages(self.key)[1]

    @property
    def advertised_versions(self) -> range:
        """What ApiVersions lists, where the broker answers it (`server/apis.py`): what Kafka 4.3
        lists."""
        return _ADVERTISED_OTHERWISE.get(self.key, self.versions)


@functools.cache
def _messages(key: ApiKey) -> tuple[type[Request], type[Response]]:
    module = importlib.import_module(f"ottla.wire.messages.{key.name.lower()}")
    name = "".join(word.capitalize() for word in key.name.split("_"))
    return getattr(module, f"{name}Request"), getattr(module, f"{name}Response")


_ADVERTISED_OTHERWISE = {
    # librdkafka takes a broker that does not list these old versions for one that is too old
    # for any compression but gzip (KAFKA-18659). They are not to be had.
    ApiKey.PRODUCE: parse_versions("0-13"),
    # The newest is unstable in Kafka 4.3: two-phase commit (KIP-939).
    ApiKey.INIT_PRODUCER_ID: parse_versions("0-5"),
}

APIS: dict[ApiKey, Api] = {
    key: Api(key, parse_versions(versions), flexible_since)
    for key, versions, flexible_since in (
        (ApiKey.PRODUCE, "3-13", 9),
        (ApiKey.FETCH, "4-18", 12),
        (ApiKey.LIST_OFFSETS, "1-11", 6),
        (ApiKey.METADATA, "0-13", 9),
        (ApiKey.LEADER_AND_ISR, "0-7", 4),
        (ApiKey.STOP_REPLICA, "0-4", 2),
        (ApiKey.UPDATE_METADATA, "0-8", 6),
        (ApiKey.CONTROLLED_SHUTDOWN, "0-3", 3),
        (ApiKey.OFFSET_COMMIT, "2-10", 8),
        (ApiKey.OFFSET_FETCH, "1-10", 6),
        (ApiKey.FIND_COORDINATOR, "0-6", 3),
        (ApiKey.JOIN_GROUP, "0-9", 6),
        (ApiKey.HEARTBEAT, "0-4", 4),
        (ApiKey.LEAVE_GROUP, "0-5", 4),
        (ApiKey.SYNC_GROUP, "0-5", 4),
        (ApiKey.DESCRIBE_GROUPS, "0-6", 5),
        (ApiKey.LIST_GROUPS, "0-5", 3),
        (ApiKey.API_VERSIONS, "0-4", 3),
        (ApiKey.CREATE_TOPICS, "2-7", 5),
        (ApiKey.DELETE_TOPICS, "1-6", 4),
        (ApiKey.DELETE_RECORDS, "0-2", 2),
        (ApiKey.INIT_PRODUCER_ID, "0-6", 2),
        (ApiKey.OFFSET_FOR_LEADER_EPOCH, "2-4", 4),
        (ApiKey.ADD_PARTITIONS_TO_TXN, "0-5", 3),
        (ApiKey.ADD_OFFSETS_TO_TXN, "0-4", 3),
        (ApiKey.END_TXN, "0-5", 3),
        (ApiKey.WRITE_TXN_MARKERS, "1-2", 1),
        (ApiKey.TXN_OFFSET_COMMIT, "0-5", 3),
        (ApiKey.DESCRIBE_ACLS, "1-3", 2),
        (ApiKey.CREATE_ACLS, "1-3", 2),
        (ApiKey.DELETE_ACLS, "1-3", 2),
        (ApiKey.DESCRIBE_CONFIGS, "1-4", 4),
        (ApiKey.ALTER_CONFIGS, "0-2", 2),
        (ApiKey.DESCRIBE_LOG_DIRS, "1-5", 2),
        (ApiKey.CREATE_PARTITIONS, "0-3", 2),
        (ApiKey.DELETE_GROUPS, "0-2", 2),
        (ApiKey.ELECT_LEADERS, "0-2", 2),
        (ApiKey.INCREMENTAL_ALTER_CONFIGS, "0-1", 1),
        (ApiKey.ALTER_PARTITION_REASSIGNMENTS, "0-1", 0),
        (ApiKey.LIST_PARTITION_REASSIGNMENTS, "0-0", 0),
        (ApiKey.OFFSET_DELETE, "0-0", None),
        (ApiKey.ALTER_PARTITION, "0-3", 0),
        (ApiKey.DESCRIBE_CLUSTER, "0-2", 0),
        (ApiKey.DESCRIBE_PRODUCERS, "0-0", 0),
        (ApiKey.DESCRIBE_TRANSACTIONS, "0-0", 0),
        (ApiKey.LIST_TRANSACTIONS, "0-2", 0),
        (ApiKey.ALLOCATE_PRODUCER_IDS, "0-0", 0),
        (ApiKey.CONSUMER_GROUP_HEARTBEAT, "0-1", 0),
        (ApiKey.CONSUMER_GROUP_DESCRIBE, "0-1", 0),
        (ApiKey.LIST_CONFIG_RESOURCES, "0-1", 0),
        (ApiKey.DESCRIBE_TOPIC_PARTITIONS, "0-0", 0),
        (ApiKey.GET_REPLICA_LOG_INFO, "0-0", 0),
    )
}

FIRST_FLEXIBLE_VERSION: dict[int, int] = {
    api.key: api.flexible_since for api in APIS.values() if api.flexible_since is not None
}
"""From which version on the headers of an API have tagged fields; also for versions above those
that we know, as KIP-511 needs for ApiVersions."""
