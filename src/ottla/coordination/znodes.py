"""Kafka's own paths, and the JSON in them, as Kafka 3.9 writes it: its ZooKeeper-era tools
read these nodes.

Decoding ignores fields it does not know and refuses values of a wrong type. What a crash
cannot leave (half a JSON) is not looked for; what a person wrote by hand is reported with the
node's path.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from ottla.kernel.ids import TopicId, topic_id_from_text, topic_id_text

CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
CLUSTER_ID = "/cluster/id"
BROKER_IDS = "/brokers/ids"
TOPICS = "/brokers/topics"
CONFIG = "/config"
TOPIC_CONFIGS = "/config/topics"
BROKER_CONFIGS = "/config/brokers"
GROUP_CONFIGS = "/config/groups"
CLIENT_METRICS_CONFIGS = "/config/client-metrics"
DELETE_TOPICS = "/admin/delete_topics"
PRODUCER_ID_BLOCK = "/latest_producer_id_block"
CONFIG_CHANGES = "/config/changes"
CONFIG_CHANGE_PREFIX = f"{CONFIG_CHANGES}/config_change_"
"""Of nodes that tell brokers which settings to read again. Ten digits follow."""
REASSIGN_PARTITIONS = "/admin/reassign_partitions"
PREFERRED_REPLICA_ELECTION = "/admin/preferred_replica_election"
LOG_DIR_EVENTS = "/log_dir_event_notification"
LOG_DIR_EVENT_PREFIX = f"{LOG_DIR_EVENTS}/log_dir_event_"
ACCEPTED_BROKERS = "/ottla_accepted_brokers"
"""Not Kafka's. The registration of each broker that a controller has acted on last: one with
another epoch has restarted since, though it may have been alive each time that somebody looked."""
BROKER_RUNS = "/ottla_broker_runs"
"""Not Kafka's. The last run of each broker: its log dirs are compared with it when it is back."""
LOG_ADOPTION = "/ottla_log_adoption"
"""Not Kafka's. There from the moment that a store is made until its broker has looked for logs
that it should take over: a crash in between must not make them strays."""

DEFAULT_ENTITY = "<default>"

# Made by every broker at start, as Kafka's `createTopLevelPaths` does.
PERSISTENT_PATHS = (
    "/consumers",
    BROKER_IDS,
    TOPICS,
    CONFIG_CHANGES,
    DELETE_TOPICS,
    "/brokers/seqid",
    "/isr_change_notification",
    PRODUCER_ID_BLOCK,
    LOG_DIR_EVENTS,
    TOPIC_CONFIGS,
    "/config/clients",
    "/config/users",
    BROKER_CONFIGS,
    "/config/ips",
    GROUP_CONFIGS,
    CLIENT_METRICS_CONFIGS,
    "/cluster",
    BROKER_RUNS,
)


def broker_path(broker_id: int) -> str:
    return f"{BROKER_IDS}/{broker_id}"


def accepted_broker_path(broker_id: int) -> str:
    return f"{ACCEPTED_BROKERS}/{broker_id}"


def delete_topic_path(topic: str) -> str:
    return f"{DELETE_TOPICS}/{topic}"


def broker_run_path(broker_id: int) -> str:
    return f"{BROKER_RUNS}/{broker_id}"


def topic_path(topic: str) -> str:
    return f"{TOPICS}/{topic}"


def partitions_path(topic: str) -> str:
    return f"{TOPICS}/{topic}/partitions"


def partition_path(topic: str, partition: int) -> str:
    return f"{TOPICS}/{topic}/partitions/{partition}"


def partition_state_path(topic: str, partition: int) -> str:
    return f"{TOPICS}/{topic}/partitions/{partition}/state"


def topic_config_path(topic: str) -> str:
    return f"{TOPIC_CONFIGS}/{topic}"


def broker_config_path(broker_id: int | None) -> str:
    """None: what holds for every broker."""
    return f"{BROKER_CONFIGS}/{DEFAULT_ENTITY if broker_id is None else broker_id}"


def group_config_path(group_id: str) -> str:
    return f"{GROUP_CONFIGS}/{_quoted(group_id)}"


def client_metrics_config_path(subscription: str) -> str:
    return f"{CLIENT_METRICS_CONFIGS}/{_quoted(subscription)}"


def _quoted(entity: str) -> str:
    """A name that may hold anything, as Kafka quotes users and clients."""
    from urllib.parse import quote  # Few groups have settings, and it takes 3 ms of a start.

    name = quote(entity, safe="")
    # No names in a path, to ZooKeeper.
    return name.replace(".", "%2E") if name in (".", "..") else name


def unquoted(name: str) -> str:
    """The group or the subscription that a node of settings is of."""
    from urllib.parse import unquote

    return unquote(name)


class BadZnode(ValueError):
    """A node that does not hold what Kafka keeps there."""


class Endpoint(NamedTuple):
    listener_name: str
    security_protocol: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.listener_name}://{host}:{self.port}"


class BrokerInfo(NamedTuple):
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    timestamp_ms: int = 0
    jmx_port: int = -1
    features: Mapping[str, Mapping[str, int]] = MappingProxyType({})
    unclean_log_dirs: tuple[str, ...] = ()
    """Those whose logs may have lost their end. Not Kafka's, which passes over it."""
    min_insync_replicas: int | None = None
    """As its own file has it, for topics without their own. Not Kafka's, either."""


class BrokerRun(NamedTuple):
    """From one registration of a broker to the next."""

    broker_epoch: int
    log_dirs: tuple[str, ...]


class ReplicaAssignment(NamedTuple):
    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()


class TopicAssignment(NamedTuple):
    topic_id: TopicId | None
    """None for a topic made before Kafka 2.8, which had no ids."""
    partitions: Mapping[int, ReplicaAssignment]


class LeaderAndIsr(NamedTuple):
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    leader_recovery_state: int = 0
    """0: recovered; 1: recovering after an unclean election (KIP-704)."""
    eligible_leader_replicas: tuple[int, ...] = ()
    """Not in the ISR, and with every committed record: they fell out of it when it was smaller than
    `min.insync.replicas`, and nothing was committed since (KIP-966)."""
    last_known_elr: tuple[int, ...] = ()
    """In the ISR or eligible, until they lost the end of their logs. They count when nobody else is
    left."""


class ProducerIdBlock(NamedTuple):
    broker_id: int
    first_producer_id: int
    last_producer_id: int


# -- encoding ---------------------------------------------------------------------------


def _encode(content: Mapping[str, object]) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode()


def encode_controller(broker_id: int, timestamp_ms: int) -> bytes:
    return _encode(
        {
            "version": 2,
            "brokerid": broker_id,
            "timestamp": str(timestamp_ms),
            "kraftControllerEpoch": -1,
        }
    )


def encode_controller_epoch(epoch: int) -> bytes:
    return str(epoch).encode()


def encode_cluster_id(cluster_id: str) -> bytes:
    return _encode({"version": "1", "id": cluster_id})  # Kafka writes this version as text.


def encode_broker(info: BrokerInfo) -> bytes:
    # Host and port are there for clients of old, which knew plaintext only.
    plain = next((e for e in info.endpoints if e.security_protocol == "PLAINTEXT"), None)
    content: dict[str, object] = {
        "version": 5,
        "host": plain.host if plain else None,
        "port": plain.port if plain else -1,
        "endpoints": [str(endpoint) for endpoint in info.endpoints],
        "jmx_port": info.jmx_port,
        "timestamp": str(info.timestamp_ms),
        "listener_security_protocol_map": {
            endpoint.listener_name: endpoint.security_protocol for endpoint in info.endpoints
        },
        "features": {name: dict(versions) for name, versions in info.features.items()},
    }
    if info.rack is not None:
        content["rack"] = info.rack
    if info.unclean_log_dirs:
        content["unclean_log_dirs"] = info.unclean_log_dirs
    if info.min_insync_replicas is not None:
        content["min_insync_replicas"] = info.min_insync_replicas
    return _encode(content)


def encode_broker_run(run: BrokerRun) -> bytes:
    return _encode({"version": 1, "broker_epoch": run.broker_epoch, "log_dirs": run.log_dirs})


def encode_topic(assignment: TopicAssignment) -> bytes:
    partitions = sorted(assignment.partitions.items())
    content: dict[str, object] = {
        "version": 3,
        "partitions": {str(p): a.replicas for p, a in partitions},
        "adding_replicas": {str(p): a.adding_replicas for p, a in partitions if a.adding_replicas},
        "removing_replicas": {
            str(p): a.removing_replicas for p, a in partitions if a.removing_replicas
        },
    }
    if assignment.topic_id is not None:
        content["topic_id"] = topic_id_text(assignment.topic_id)
    return _encode(content)


def encode_partition_state(state: LeaderAndIsr) -> bytes:
    content: dict[str, object] = {
        "version": 1,
        "leader": state.leader,
        "leader_epoch": state.leader_epoch,
        "controller_epoch": state.controller_epoch,
        "isr": state.isr,
    }
    if state.leader_recovery_state:
        content["leader_recovery_state"] = state.leader_recovery_state
    # Not Kafka's, which passes over what it does not know.
    if state.eligible_leader_replicas:
        content["eligible_leader_replicas"] = state.eligible_leader_replicas
    if state.last_known_elr:
        content["last_known_elr"] = state.last_known_elr
    return _encode(content)


def encode_config(config: Mapping[str, str]) -> bytes:
    return _encode({"version": 1, "config": dict(config)})


def encode_config_change(path: str) -> bytes:
    """Of settings that are kept at this path."""
    return _encode({"version": 2, "entity_path": path.removeprefix(f"{CONFIG}/")})


def encode_log_dir_event(broker_id: int) -> bytes:
    """The broker has lost a log dir (event 1, the only kind there is)."""
    return _encode({"version": 1, "broker": broker_id, "event": 1})


def encode_producer_id_block(block: ProducerIdBlock) -> bytes:
    return _encode(
        {
            "version": 1,
            "broker": block.broker_id,
            "block_start": str(block.first_producer_id),
            "block_end": str(block.last_producer_id),
        }
    )


# -- decoding ---------------------------------------------------------------------------

T = TypeVar("T")


class _Object:
    """A JSON object that is asked for its fields by type."""

    __slots__ = ("_content", "_path")

    def __init__(self, path: str, data: object) -> None:
        """From the node's bytes, or from a part of what is in them."""
        self._path = path
        try:
            self._content: Any = json.loads(data.decode()) if isinstance(data, bytes) else data
        except ValueError as error:
            raise BadZnode(f"{path} holds no JSON: {error}") from error
        if not isinstance(self._content, dict):
            raise self.bad("it is not a JSON object")

    def bad(self, why: str) -> BadZnode:
        return BadZnode(f"{self._path} does not hold what Kafka keeps there: {why}")

    def optional(self, name: str, read: Callable[[object], T]) -> T | None:
        return None if self._content.get(name) is None else self.required(name, read)

    def required(self, name: str, read: Callable[[object], T]) -> T:
        if name not in self._content:
            raise self.bad(f"{name} is missing")
        try:
            return read(self._content[name])
        except (TypeError, ValueError) as error:
            raise self.bad(f"{name} is {self._content[name]!r}") from error


def _int(value: object) -> int:
    if type(value) is not int:
        raise TypeError
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _int_in_text(value: object) -> int:
    return int(_text(value))


def _ints(value: object) -> tuple[int, ...]:
    if not isinstance(value, list):
        raise TypeError
    return tuple(map(_int, value))


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise TypeError
    return tuple(map(_text, value))


def _map_of(read: Callable[[object], T]) -> Callable[[object], dict[str, T]]:
    def read_map(value: object) -> dict[str, T]:
        if not isinstance(value, dict):
            raise TypeError
        return {name: read(item) for name, item in value.items()}

    return read_map


def _objects(path: str) -> Callable[[object], list[_Object]]:
    def read(value: object) -> list[_Object]:
        if not isinstance(value, list):
            raise TypeError
        return [_Object(path, each) for each in value]

    return read


def _topic_id(value: object) -> TopicId:
    return topic_id_from_text(_text(value))


def _partition_map(value: object) -> dict[int, tuple[int, ...]]:
    return {int(partition): ints for partition, ints in _map_of(_ints)(value).items()}


def decode_controller(data: bytes) -> int:
    return _Object(CONTROLLER, data).required("brokerid", _int)


def decode_controller_epoch(data: bytes) -> int:
    try:
        return int(data)
    except ValueError as error:
        raise BadZnode(f"{CONTROLLER_EPOCH} holds {data!r}, which is no number") from error


def decode_cluster_id(data: bytes) -> str:
    return _Object(CLUSTER_ID, data).required("id", _text)


def decode_broker(broker_id: int, data: bytes) -> BrokerInfo:
    content = _Object(broker_path(broker_id), data)
    version = content.required("version", _int)
    if version < 1:
        raise content.bad(f"version {version} is unknown")
    if version == 1:
        endpoint = Endpoint(
            "PLAINTEXT",
            "PLAINTEXT",
            content.required("host", _text),
            content.required("port", _int),
        )
        endpoints: tuple[Endpoint, ...] = (endpoint,)
    else:
        protocols = content.optional("listener_security_protocol_map", _map_of(_text)) or {}
        endpoints = tuple(
            _endpoint(content, text, protocols) for text in content.required("endpoints", _texts)
        )
    return BrokerInfo(
        endpoints=endpoints,
        rack=content.optional("rack", _text),
        timestamp_ms=content.optional("timestamp", _int_in_text) or 0,
        jmx_port=content.required("jmx_port", _int),
        features=content.optional("features", _map_of(_map_of(_int))) or {},
        unclean_log_dirs=content.optional("unclean_log_dirs", _texts) or (),
        min_insync_replicas=content.optional("min_insync_replicas", _int),
    )


def decode_broker_run(path: str, data: bytes) -> BrokerRun:
    content = _Object(path, data)
    return BrokerRun(content.required("broker_epoch", _int), content.required("log_dirs", _texts))


def _endpoint(content: _Object, text: str, protocols: Mapping[str, str]) -> Endpoint:
    listener_name, separator, address = text.partition("://")
    host, colon, port = address.rpartition(":")
    if not separator or not colon or not port.isascii() or not port.isdigit():
        raise content.bad(f"{text!r} is not LISTENER://HOST:PORT")
    # Before version 4 a listener was named after its security protocol.
    protocol = protocols.get(listener_name, listener_name)
    return Endpoint(listener_name, protocol, host.removeprefix("[").removesuffix("]"), int(port))


def decode_topic(topic: str, data: bytes) -> TopicAssignment:
    content = _Object(topic_path(topic), data)
    adding = content.optional("adding_replicas", _partition_map) or {}
    removing = content.optional("removing_replicas", _partition_map) or {}
    return TopicAssignment(
        topic_id=content.optional("topic_id", _topic_id),
        partitions={
            partition: ReplicaAssignment(
                replicas, adding.get(partition, ()), removing.get(partition, ())
            )
            for partition, replicas in content.required("partitions", _partition_map).items()
        },
    )


def decode_partition_state(path: str, data: bytes) -> LeaderAndIsr:
    content = _Object(path, data)
    return LeaderAndIsr(
        leader=content.required("leader", _int),
        leader_epoch=content.required("leader_epoch", _int),
        isr=content.required("isr", _ints),
        controller_epoch=content.required("controller_epoch", _int),
        leader_recovery_state=content.optional("leader_recovery_state", _int) or 0,
        eligible_leader_replicas=content.optional("eligible_leader_replicas", _ints) or (),
        last_known_elr=content.optional("last_known_elr", _ints) or (),
    )


def decode_reassignment(data: bytes) -> dict[tuple[str, int], tuple[int, ...]]:
    """By topic and partition, the replicas to move to."""
    content = _Object(REASSIGN_PARTITIONS, data)
    return {
        (each.required("topic", _text), each.required("partition", _int)): each.required(
            "replicas", _ints
        )
        for each in content.required("partitions", _objects(REASSIGN_PARTITIONS))
    }


def decode_preferred_election(data: bytes) -> list[tuple[str, int]]:
    """Topics and partitions."""
    content = _Object(PREFERRED_REPLICA_ELECTION, data)
    return [
        (each.required("topic", _text), each.required("partition", _int))
        for each in content.required("partitions", _objects(PREFERRED_REPLICA_ELECTION))
    ]


def decode_log_dir_event(path: str, data: bytes) -> int:
    """The broker that has lost a log dir."""
    return _Object(path, data).required("broker", _int)


def decode_config(path: str, data: bytes) -> dict[str, str]:
    if not data:
        return {}  # Kafka takes an empty node for no settings.
    return _Object(path, data).optional("config", _map_of(_text)) or {}


def decode_config_change(path: str, data: bytes) -> str:
    """The path of the node with the settings."""
    content = _Object(path, data)
    if content.required("version", _int) == 1:
        kind, name = content.required("entity_type", _text), content.required("entity_name", _text)
        entity = f"{kind}/{name}"
    else:
        entity = content.required("entity_path", _text)
    if any(part in ("", ".", "..") for part in entity.split("/")):
        raise content.bad(f"no entity is {entity!r}")
    return f"{CONFIG}/{entity}"


def decode_producer_id_block(data: bytes) -> ProducerIdBlock | None:
    """None: no block was given out yet; the node is made empty."""
    if not data:
        return None
    content = _Object(PRODUCER_ID_BLOCK, data)
    return ProducerIdBlock(
        content.required("broker", _int),
        content.required("block_start", _int_in_text),
        content.required("block_end", _int_in_text),
    )
