"""The largest requests that a broker takes, of every API: so many elements, or all that there is to
name. One that names what is there, and one that names what is not, where that takes another way."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from ottla.wire.api import APIS, ApiKey
from ottla.wire.schema import Request, Struct
from tests.support.raw_client import RawClient
from tests.support.simulated_broker import make_batch

TOPIC = "big"
GROUP_OF_ALL = "committer"
TOPIC_RESOURCE, GROUP_RESOURCE = 2, 32


class World(NamedTuple):
    """What the broker has, and how large a request may be. Two of them share a broker, one after
    the other: what a member or a producer leaves behind has the name of its world."""

    client: RawClient
    name: str
    partition_count: int
    new_partition_count: int
    """Of the topic that is made, grows to twice that, and is deleted."""
    group_count: int
    element_count: int

    def names(self, prefix: str) -> list[str]:
        """Those of groups or transactional ids that are there come first."""
        return [f"{prefix}{number}" for number in range(self.element_count)]

    @property
    def indexes(self) -> list[int]:
        """Those of partitions that are there come first."""
        return list(range(self.element_count))

    @property
    def known(self) -> list[int]:
        return list(range(self.partition_count))


class Case(NamedTuple):
    name: str
    request: Request
    version: int


def largest_requests(world: World, key: ApiKey) -> list[Case]:
    """Prepares what it takes, in order: some follow on what those before them did."""
    return _Builder(world, key).cases()


class _Builder:
    def __init__(self, world: World, key: ApiKey) -> None:
        self._world = world
        self._key = key
        self.cases_so_far: list[Case] = []

    def cases(self) -> list[Case]:
        _BUILDERS[self._key](self, self._world)
        return self.cases_so_far

    def add(self, name: str, version: int, **fields: Any) -> None:
        self.cases_so_far.append(Case(name, APIS[self._key].request(**fields), version))

    def one(self, path: str, **fields: Any) -> Any:
        """A struct within the request: `topics.partitions` names that of the inner array."""
        return self._class_of(path)(**fields)

    def each(self, path: str, name: str, values: list[Any], **fields: Any) -> list[Any]:
        made = self._class_of(path)
        return [made(**{name: value}, **fields) for value in values]

    def _class_of(self, path: str) -> type[Struct]:
        found: type[Struct] = APIS[self._key].request
        for step in path.split("."):
            (field,) = (field for field in found.FIELDS if field.name == step)
            found = field.type.element.struct  # type: ignore[union-attr]
        return found


def _produce(build: _Builder, world: World) -> None:
    # Not older than retention: this is about requests, and to roll 10,000 logs takes 20,000 files.
    now_ms = int(time.time() * 1000)
    batch = make_batch(b"v", timestamp=now_ms)
    datas = [
        build.one(
            "topic_data.partition_data",
            index=index,
            records=batch if index < world.partition_count else None,
        )
        for index in world.indexes
    ]
    topics = [build.one("topic_data", name=TOPIC, partition_data=datas)]
    build.add("all partitions", 12, acks=1, timeout_ms=1000, topic_data=topics)
    topics = build.each("topic_data", "name", world.names("unknown-"), partition_data=[])
    build.add("unknown topics", 12, acks=1, timeout_ms=1000, topic_data=topics)
    many = [b"v"] * 20_000
    data = build.one(
        "topic_data.partition_data", index=0, records=make_batch(*many, timestamp=now_ms)
    )
    topics = [build.one("topic_data", name=TOPIC, partition_data=[data])]
    build.add("many records", 12, acks=1, timeout_ms=1000, topic_data=topics)


def _fetch(build: _Builder, world: World) -> None:
    partitions = build.each(
        "topics.partitions", "partition", world.indexes, fetch_offset=0, partition_max_bytes=1024
    )
    topics = [build.one("topics", topic=TOPIC, partitions=partitions)]
    limits = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 24}
    build.add("no session", 12, **limits, session_id=0, session_epoch=-1, topics=topics)
    known = partitions[: world.partition_count]
    topics = [build.one("topics", topic=TOPIC, partitions=known)]
    limits = {"max_wait_ms": 200, "min_bytes": 1 << 24, "max_bytes": 1 << 25}
    build.add("a session", 12, **limits, session_id=0, session_epoch=0, topics=topics)


def _list_offsets(build: _Builder, world: World) -> None:
    for name, timestamp in (("latest", -1), ("earliest", -2), ("by time", 1)):
        partitions = build.each(
            "topics.partitions", "partition_index", world.indexes, timestamp=timestamp
        )
        topics = [build.one("topics", name=TOPIC, partitions=partitions)]
        build.add(name, 8, replica_id=-1, topics=topics)


def _metadata(build: _Builder, world: World) -> None:
    build.add("all topics", 12, topics=None)
    topics = build.each("topics", "name", world.names("unknown-"))
    build.add("unknown topics", 12, topics=topics, allow_auto_topic_creation=False)


def _offset_commit(build: _Builder, world: World) -> None:
    for name, indexes in (("all partitions", world.known), ("too many", world.indexes)):
        partitions = build.each("topics.partitions", "partition_index", indexes, committed_offset=1)
        topics = [build.one("topics", name=TOPIC, partitions=partitions)]
        build.add(name, 9, group_id=GROUP_OF_ALL, topics=topics)


def _offset_fetch(build: _Builder, world: World) -> None:
    group_ids = world.names("g")
    build.add("all groups", 9, groups=build.each("groups", "group_id", group_ids, topics=None))
    topics = [build.one("groups.topics", name=TOPIC, partition_indexes=world.indexes)]
    group = build.one("groups", group_id=GROUP_OF_ALL, topics=topics)
    build.add("one group, by partition", 9, groups=[group])
    group = build.one("groups", group_id=GROUP_OF_ALL, topics=None)
    build.add("one group, all of it", 9, groups=[group], require_stable=True)


def _find_coordinator(build: _Builder, world: World) -> None:
    for name, key_type in (("groups", 0), ("transactions", 1)):
        build.add(name, 4, key_type=key_type, coordinator_keys=world.names("g"))


_PROTOCOLS_MAX = 100
_MEMBER = {"group_id": "joined", "protocol_type": "consumer"}
_TIMES = {"session_timeout_ms": 30_000, "rebalance_timeout_ms": 30_000}


def _join_group(build: _Builder, world: World) -> None:
    """More than a hundred protocols are refused: see the handler."""
    protocols = build.each("protocols", "name", world.names("p"), metadata=b"")
    build.add("too many protocols", 3, **_MEMBER, **_TIMES, protocols=protocols)
    some = protocols[:_PROTOCOLS_MAX]
    member = {"group_id": f"joined {world.name}", "protocol_type": "consumer"}
    build.add("many protocols", 3, **member, **_TIMES, protocols=some)


def _sync_group(build: _Builder, world: World) -> None:
    """By the leader of a group of its own."""
    request = APIS[ApiKey.JOIN_GROUP].request
    protocol = _Builder(world, ApiKey.JOIN_GROUP).one("protocols", name="range", metadata=b"")
    group_id = f"synced {world.name}"
    member = {"group_id": group_id, "protocol_type": "consumer"}
    joined = world.client.ask(request(**member, **_TIMES, protocols=[protocol]), 3)
    assignments = build.each("assignments", "member_id", world.names("m"), assignment=b"a")
    assignments.append(
        build.one("assignments", member_id=joined.member_id, assignment=bytes(100_000))
    )
    build.add(
        "many assignments",
        3,
        group_id=group_id,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        assignments=assignments,
    )


def _heartbeat(build: _Builder, world: World) -> None:
    build.add("unknown member", 4, group_id="joined", generation_id=1, member_id="m")


def _leave_group(build: _Builder, world: World) -> None:
    members = build.each("members", "member_id", world.names("m"))
    build.add("unknown members", 5, group_id="joined", members=members)


def _describe_groups(build: _Builder, world: World) -> None:
    build.add("all groups", 5, groups=world.names("g"))


def _consumer_group_describe(build: _Builder, world: World) -> None:
    build.add("all groups", 1, group_ids=world.names("g"))


def _list_groups(build: _Builder, world: World) -> None:
    build.add("all groups", 5)
    build.add("many filters", 5, states_filter=world.names("s"), types_filter=["classic"])


def _api_versions(build: _Builder, world: World) -> None:
    build.add("all", 4, client_software_name="raw", client_software_version="1")


def _create_topics(build: _Builder, world: World) -> None:
    count = world.partition_count
    new_count = world.new_partition_count
    new = build.one("topics", name="new", num_partitions=new_count, replication_factor=1)
    build.add("one topic", 7, topics=[new], timeout_ms=60_000)
    topics = build.each("topics", "name", world.names("n"), num_partitions=1, replication_factor=1)
    build.add("too many topics", 7, topics=topics, timeout_ms=1000, validate_only=True)
    some = topics[:count]
    build.add("many topics", 7, topics=some, timeout_ms=1000, validate_only=True)


def _create_partitions(build: _Builder, world: World) -> None:
    one = build.one("topics", name="new", count=2 * world.new_partition_count, assignments=None)
    build.add("of one topic", 3, topics=[one], timeout_ms=60_000)
    topics = build.each("topics", "name", world.names("unknown-"), count=2, assignments=None)
    build.add("unknown topics", 3, topics=topics, timeout_ms=1000)


def _elect_leaders(build: _Builder, world: World) -> None:
    one = build.one("topic_partitions", topic=TOPIC, partitions=world.indexes)
    build.add("all partitions", 2, topic_partitions=[one], timeout_ms=60_000)
    topics = build.each("topic_partitions", "topic", world.names("unknown-"), partitions=[0])
    build.add("unknown topics", 2, topic_partitions=topics, timeout_ms=1000)
    build.add("everything", 2, topic_partitions=None, timeout_ms=60_000)


def _alter_partition_reassignments(build: _Builder, world: World) -> None:
    """Where they are, and where they cannot be."""
    for name, replicas in (("to where they are", [1]), ("to nobody", [99]), ("cancelled", None)):
        partitions = build.each(
            "topics.partitions", "partition_index", world.indexes, replicas=replicas
        )
        topics = [build.one("topics", name=TOPIC, partitions=partitions)]
        build.add(name, 1, topics=topics, timeout_ms=60_000)


def _list_partition_reassignments(build: _Builder, world: World) -> None:
    one = build.one("topics", name=TOPIC, partition_indexes=world.indexes)
    build.add("all partitions", 0, topics=[one], timeout_ms=60_000)
    build.add("everything", 0, topics=None, timeout_ms=60_000)


def _delete_topics(build: _Builder, world: World) -> None:
    build.add("one topic", 6, topics=[build.one("topics", name="new")], timeout_ms=60_000)
    topics = build.each("topics", "name", world.names("unknown-"))
    build.add("unknown topics", 6, topics=topics, timeout_ms=1000)


def _delete_records(build: _Builder, world: World) -> None:
    partitions = build.each("topics.partitions", "partition_index", world.indexes, offset=-1)
    topics = [build.one("topics", name=TOPIC, partitions=partitions)]
    build.add("all partitions", 2, topics=topics, timeout_ms=1000)


def _init_producer_id(build: _Builder, world: World) -> None:
    build.add("one", 5, transactional_id="other", transaction_timeout_ms=60_000)


def _offset_for_leader_epoch(build: _Builder, world: World) -> None:
    partitions = build.each("topics.partitions", "partition", world.indexes, leader_epoch=0)
    build.add("all partitions", 4, topics=[build.one("topics", topic=TOPIC, partitions=partitions)])


def _producer(world: World, name: str) -> dict[str, Any]:
    transactional_id = f"{name} {world.name}"
    request = APIS[ApiKey.INIT_PRODUCER_ID].request(
        transactional_id=transactional_id, transaction_timeout_ms=60_000
    )
    producer = world.client.ask(request, 4)
    assert producer.error_code == 0, f"no producer id: {producer}"
    return {
        "transactional_id": transactional_id,
        "producer_id": producer.producer_id,
        "producer_epoch": producer.producer_epoch,
    }


def _add_partitions_to_txn(build: _Builder, world: World) -> None:
    unknown = build.each(
        "transactions", "transactional_id", world.names("x"), topics=[], verify_only=True
    )
    build.add("many transactions", 5, transactions=unknown)
    transaction = _producer(world, "t0")
    for name, indexes in (("too many partitions", world.indexes), ("partitions", world.known)):
        topics = [build.one("transactions.topics", name=TOPIC, partitions=indexes)]
        asked = build.one("transactions", **transaction, topics=topics)
        build.add(name, 5, transactions=[asked])


def _add_offsets_to_txn(build: _Builder, world: World) -> None:
    build.add("one group", 3, **_producer(world, "t1"), group_id=GROUP_OF_ALL)


def _end_txn(build: _Builder, world: World) -> None:
    transaction = _producer(world, "t2")
    adding = _Builder(world, ApiKey.ADD_PARTITIONS_TO_TXN)
    topics = [adding.one("transactions.topics", name=TOPIC, partitions=world.known)]
    adding.add("", 5, transactions=[adding.one("transactions", **transaction, topics=topics)])
    (added,) = adding.cases_so_far
    (result,) = world.client.ask(added.request, added.version).results_by_transaction
    assert not result.topic_results[0].results_by_partition[0].partition_error_code, "not added"
    build.add("of all partitions", 4, **transaction, committed=True)


def _write_txn_markers(build: _Builder, world: World) -> None:
    topics = [build.one("markers.topics", name=TOPIC, partition_indexes=world.indexes)]
    marker = {"producer_epoch": 0, "transaction_result": True}
    build.add(
        "to all", 1, markers=[build.one("markers", producer_id=9999, topics=topics, **marker)]
    )
    producers = [10_000 + number for number in world.indexes]
    build.add("many", 1, markers=build.each("markers", "producer_id", producers, **marker))


def _txn_offset_commit(build: _Builder, world: World) -> None:
    transaction = _producer(world, "t3")
    for name, indexes in (("all partitions", world.known), ("too many", world.indexes)):
        partitions = build.each("topics.partitions", "partition_index", indexes, committed_offset=1)
        topics = [build.one("topics", name=TOPIC, partitions=partitions)]
        build.add(name, 5, **transaction, group_id="in-transaction", topics=topics)


def _offset_delete(build: _Builder, world: World) -> None:
    partitions = build.each("topics.partitions", "partition_index", world.indexes)
    topics = [build.one("topics", name=TOPIC, partitions=partitions)]
    build.add("all partitions", 0, group_id=GROUP_OF_ALL, topics=topics)


def _describe_acls(build: _Builder, world: World) -> None:
    build.add("all", 3, resource_type_filter=1, pattern_type_filter=1)


def _create_acls(build: _Builder, world: World) -> None:
    made = {"resource_type": 2, "principal": "User:a", "host": "*", "operation": 3}
    creations = build.each("creations", "resource_name", world.names("t"), **made)
    build.add("many", 3, creations=creations)


def _delete_acls(build: _Builder, world: World) -> None:
    build.add("many", 3, filters=build.each("filters", "resource_name_filter", world.names("t")))


def _describe_configs(build: _Builder, world: World) -> None:
    fields = {"configuration_keys": None, "resource_type": GROUP_RESOURCE}
    groups = build.each("resources", "resource_name", world.names("g"), **fields)
    build.add("groups", 4, resources=groups, include_synonyms=True, include_documentation=True)
    topic = build.one("resources", resource_type=TOPIC_RESOURCE, resource_name=TOPIC)
    topic.configuration_keys = world.names("k")
    build.add("many keys", 4, resources=[topic])


def _alter_configs(build: _Builder, world: World) -> None:
    configs = build.each(
        "resources.configs", "name", ["consumer.session.timeout.ms"], value="50000"
    )
    fields = {"resource_type": GROUP_RESOURCE, "configs": configs}
    groups = build.each("resources", "resource_name", world.names("g"), **fields)
    build.add("groups", 1, resources=groups, validate_only=True)
    configs = build.each("resources.configs", "name", world.names("k"), value="1")
    topic = build.one(
        "resources", resource_type=TOPIC_RESOURCE, resource_name=TOPIC, configs=configs
    )
    build.add("many settings", 1, resources=[topic], validate_only=True)


def _describe_log_dirs(build: _Builder, world: World) -> None:
    build.add("all", 4, topics=None)
    topics = [build.one("topics", topic=TOPIC, partitions=world.indexes)]
    build.add("all partitions", 4, topics=topics)


def _delete_groups(build: _Builder, world: World) -> None:
    build.add("all groups", 2, groups_names=[*world.names("g"), GROUP_OF_ALL])


def _describe_cluster(build: _Builder, world: World) -> None:
    build.add("all", 1)


def _describe_producers(build: _Builder, world: World) -> None:
    topics = [build.one("topics", name=TOPIC, partition_indexes=world.indexes)]
    build.add("all partitions", 0, topics=topics)


def _describe_transactions(build: _Builder, world: World) -> None:
    build.add("many", 0, transactional_ids=world.names("t"))


def _list_transactions(build: _Builder, world: World) -> None:
    build.add("all", 1)
    build.add("many filters", 1, producer_id_filters=world.indexes)


def _consumer_group_heartbeat(build: _Builder, world: World) -> None:
    member = {"group_id": f"k848 {world.name}", "member_epoch": 0, "rebalance_timeout_ms": 30_000}
    build.add(
        "many topics",
        1,
        **member,
        member_id="m0",
        subscribed_topic_names=[TOPIC, *world.names("n")[:-1]],
        topic_partitions=[],
    )
    owned = [build.one("topic_partitions", topic_id=bytes(16), partitions=world.indexes)]
    build.add(
        "all partitions",
        1,
        **member,
        member_id="m1",
        subscribed_topic_names=[TOPIC],
        topic_partitions=[],
    )
    member["member_epoch"] = 1
    build.add("owned partitions", 1, **member, member_id="m1", topic_partitions=owned)


def _list_config_resources(build: _Builder, world: World) -> None:
    build.add("all", 1)


def _describe_topic_partitions(build: _Builder, world: World) -> None:
    build.add("all", 0, topics=[], response_partition_limit=2000, cursor=None)
    topics = build.each("topics", "name", world.names("unknown-"))
    build.add("unknown topics", 0, topics=topics, response_partition_limit=2000, cursor=None)


_BUILDERS: dict[ApiKey, Callable[[_Builder, World], None]] = {
    ApiKey.PRODUCE: _produce,
    ApiKey.FETCH: _fetch,
    ApiKey.LIST_OFFSETS: _list_offsets,
    ApiKey.METADATA: _metadata,
    ApiKey.OFFSET_COMMIT: _offset_commit,
    ApiKey.OFFSET_FETCH: _offset_fetch,
    ApiKey.FIND_COORDINATOR: _find_coordinator,
    ApiKey.JOIN_GROUP: _join_group,
    ApiKey.HEARTBEAT: _heartbeat,
    ApiKey.LEAVE_GROUP: _leave_group,
    ApiKey.SYNC_GROUP: _sync_group,
    ApiKey.DESCRIBE_GROUPS: _describe_groups,
    ApiKey.LIST_GROUPS: _list_groups,
    ApiKey.API_VERSIONS: _api_versions,
    ApiKey.CREATE_TOPICS: _create_topics,
    ApiKey.CREATE_PARTITIONS: _create_partitions,
    ApiKey.ELECT_LEADERS: _elect_leaders,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _alter_partition_reassignments,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _list_partition_reassignments,
    ApiKey.DELETE_TOPICS: _delete_topics,
    ApiKey.DELETE_RECORDS: _delete_records,
    ApiKey.INIT_PRODUCER_ID: _init_producer_id,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: _offset_for_leader_epoch,
    ApiKey.ADD_PARTITIONS_TO_TXN: _add_partitions_to_txn,
    ApiKey.ADD_OFFSETS_TO_TXN: _add_offsets_to_txn,
    ApiKey.END_TXN: _end_txn,
    ApiKey.WRITE_TXN_MARKERS: _write_txn_markers,
    ApiKey.TXN_OFFSET_COMMIT: _txn_offset_commit,
    ApiKey.DESCRIBE_ACLS: _describe_acls,
    ApiKey.CREATE_ACLS: _create_acls,
    ApiKey.DELETE_ACLS: _delete_acls,
    ApiKey.DESCRIBE_CONFIGS: _describe_configs,
    ApiKey.ALTER_CONFIGS: _alter_configs,
    ApiKey.DESCRIBE_LOG_DIRS: _describe_log_dirs,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _alter_configs,
    ApiKey.OFFSET_DELETE: _offset_delete,
    ApiKey.DESCRIBE_CLUSTER: _describe_cluster,
    ApiKey.DESCRIBE_PRODUCERS: _describe_producers,
    ApiKey.DESCRIBE_TRANSACTIONS: _describe_transactions,
    ApiKey.LIST_TRANSACTIONS: _list_transactions,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: _consumer_group_heartbeat,
    ApiKey.CONSUMER_GROUP_DESCRIBE: _consumer_group_describe,
    ApiKey.LIST_CONFIG_RESOURCES: _list_config_resources,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: _describe_topic_partitions,
    ApiKey.DELETE_GROUPS: _delete_groups,
}
"""In the order in which they are sent: groups are deleted last."""

EVERY_API = tuple(_BUILDERS)
