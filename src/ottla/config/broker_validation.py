"""What broker settings must be together, and which ones this broker cannot honour."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ottla.config.broker_settings.replication import LEADER_SELECTOR, RACK_AWARE_SELECTOR
from ottla.config.definition import InvalidSetting, SettingValue, value_text

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig

_NO_JAVA = "this broker cannot run Java classes; remove it"

# To go on without them would break a promise that the operator relies on.
REFUSED = {
    "alter.config.policy.class.name": _NO_JAVA,
    "authorizer.class.name": _NO_JAVA + ", and with it what it would protect",
    "client.quota.callback.class": _NO_JAVA,
    "control.plane.listener.name": "the controller's requests come on inter.broker.listener.name",
    "create.topic.policy.class.name": _NO_JAVA,
    "remote.log.storage.system.enable": "this broker has no tiered storage",
    "zookeeper.metadata.migration.enable": "this broker has no KRaft to go to",
    "zookeeper.set.acl": "this broker sets no access control lists in ZooKeeper",
    "zookeeper.ssl.client.enable": "this broker has no TLS to ZooKeeper yet",
}
_HARMLESS: tuple[SettingValue, ...] = (None, "", False)


def check_refused(given: Mapping[str, SettingValue]) -> None:
    for name, why in REFUSED.items():
        if given.get(name) not in _HARMLESS:
            raise InvalidSetting(name, value_text(given[name]), why)
    if given.get("process.roles") == ("controller",):
        raise InvalidSetting("process.roles", "controller", "Ottla is always a broker too")
    for name in ("controller.quorum.voters", "controller.quorum.bootstrap.servers"):
        controllers = given.get(name)
        # One is that of Kafka's own server.properties: the broker is its own controller.
        if isinstance(controllers, tuple) and len(controllers) > 1:
            raise InvalidSetting(
                name, ",".join(controllers), "clusters of Ottla meet in zookeeper.connect instead"
            )


def check_together(config: BrokerConfig) -> None:
    _check_log(config)
    _check_network(config)
    _check_groups(config)
    _check_replication(config)
    _check_store(config)


def _check_replication(config: BrokerConfig) -> None:
    if config.replica_selector_class not in (None, "", RACK_AWARE_SELECTOR, LEADER_SELECTOR):
        raise InvalidSetting(
            "replica.selector.class",
            config.replica_selector_class,
            f"this broker cannot run Java classes; it knows {RACK_AWARE_SELECTOR} and "
            f"{LEADER_SELECTOR}",
        )
    if config.replica_fetch_wait_max_ms > config.replica_socket_timeout_ms:
        _fail(config, "replica.fetch.wait.max.ms", "at most", "replica.socket.timeout.ms")
    if config.replica_fetch_wait_max_ms > config.replica_lag_time_max_ms:
        _fail(config, "replica.fetch.wait.max.ms", "at most", "replica.lag.time.max.ms")


def _check_log(config: BrokerConfig) -> None:
    defaults = config.topic_defaults
    if defaults.segment_ms < 1:
        raise InvalidSetting("log.roll.ms", defaults.segment_ms, "Value must be at least 1")
    if defaults.segment_jitter_ms < 0:
        raise InvalidSetting(
            "log.roll.jitter.ms", defaults.segment_jitter_ms, "Value must be at least 0"
        )
    if defaults.retention_ms == 0:
        raise InvalidSetting("log.retention.ms", 0, "Value must be -1 (no limit) or at least 1")
    per_thread = config.log_cleaner_dedupe_buffer_size // max(1, config.log_cleaner_threads)
    if per_thread <= 1 << 20:
        raise InvalidSetting(
            "log.cleaner.dedupe.buffer.size",
            config.log_cleaner_dedupe_buffer_size,
            "It must be over 1 MB for each of log.cleaner.threads",
        )


def _check_network(config: BrokerConfig) -> None:
    if 0 < config.queued_max_request_bytes < config.socket_request_max_bytes:
        _fail(config, "queued.max.request.bytes", "at least", "socket.request.max.bytes")
    if config.max_connections_per_ip == 0 and not config.max_connections_per_ip_overrides:
        raise InvalidSetting(
            "max.connections.per.ip", 0, "0 needs max.connections.per.ip.overrides"
        )
    parse_connection_overrides(config.max_connections_per_ip_overrides)
    if 0 <= config.connections_max_idle_ms <= config.connection_failed_authentication_delay_ms:
        _fail(
            config,
            "connections.max.idle.ms",
            "more than",
            "connection.failed.authentication.delay.ms",
        )


def parse_connection_overrides(text: str) -> dict[str, int]:
    """`max.connections.per.ip.overrides`: HOST:COUNT,..."""
    overrides: dict[str, int] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        host, _, count = entry.rpartition(":")
        if not host.strip() or not (count.strip().isascii() and count.strip().isdigit()):
            raise InvalidSetting(
                "max.connections.per.ip.overrides", text, f"{entry} is not of the form HOST:COUNT"
            )
        overrides[host.strip()] = int(count)
    return overrides


def _check_groups(config: BrokerConfig) -> None:
    for what in ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms"):
        low, value, high = (f"group.consumer.{p}{what}" for p in ("min.", "", "max."))
        if _value(config, low) > _value(config, high):
            _fail(config, low, "at most", high)
        if _value(config, value) < _value(config, low):
            _fail(config, value, "at least", low)
        if _value(config, value) > _value(config, high):
            _fail(config, value, "at most", high)
    beat, session = "group.consumer.heartbeat.interval.ms", "group.consumer.session.timeout.ms"
    if _value(config, beat) >= _value(config, session):
        _fail(config, beat, "less than", session)
    if "classic" not in config.group_coordinator_rebalance_protocols:
        raise InvalidSetting(
            "group.coordinator.rebalance.protocols",
            ",".join(config.group_coordinator_rebalance_protocols),
            "classic cannot be left out",
        )
    if not 0 <= config.offsets_topic_compression_codec <= 4:
        raise InvalidSetting(
            "offsets.topic.compression.codec",
            config.offsets_topic_compression_codec,
            "It must be 0 (none), 1 (gzip), 2 (snappy), 3 (lz4) or 4 (zstd)",
        )


def _check_store(config: BrokerConfig) -> None:
    name, connect = "zookeeper.connect", config.zookeeper_connect
    if connect is None:
        return
    if config.ottla_coordination_file is not None:
        raise InvalidSetting(
            name, connect, "ottla.coordination.file is set too, and a cluster has one store"
        )
    hosts, slash, chroot = connect.partition("/")
    if slash and (not chroot or "//" in chroot or not all(chroot.split("/"))):
        raise InvalidSetting(name, connect, f"/{chroot} is no path of ZooKeeper, such as /kafka")
    for address in hosts.split(","):
        host, colon, port = _host_and_port(address.strip())
        is_port = port.isascii() and port.isdigit() and 0 < int(port) < 65536
        if not host or (colon and not is_port):
            raise InvalidSetting(
                name,
                connect,
                "It must be HOST:PORT,... with the path after the last one, such as "
                "zk1:2181,zk2:2181,zk3:2181/kafka",
            )


def _host_and_port(address: str) -> tuple[str, str, str]:
    """Without a port it is ZooKeeper's usual one. An IPv6 address is in brackets."""
    host, bracket, rest = address.partition("]")
    if bracket:
        _, colon, port = rest.rpartition(":")
        return host, colon, port
    return address.partition(":")


def _value(config: BrokerConfig, name: str) -> Any:
    return getattr(config, name.replace(".", "_"))


def _fail(config: BrokerConfig, name: str, relation: str, other: str) -> None:
    raise InvalidSetting(
        name,
        _value(config, name),
        f"It must be {relation} {other}, which is {_value(config, other)}",
    )
