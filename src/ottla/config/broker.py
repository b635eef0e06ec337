"""The settings of a broker."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from typing import Any, NamedTuple, NoReturn

from ottla.config.broker_settings.groups import GroupSettings
from ottla.config.broker_settings.log import LogSettings
from ottla.config.broker_settings.network import NetworkSettings
from ottla.config.broker_settings.replication import ReplicationSettings
from ottla.config.broker_settings.transactions import TransactionSettings
from ottla.config.broker_settings.unused import unused_settings
from ottla.config.broker_validation import check_refused, check_together
from ottla.config.definition import InvalidSetting, Setting, SettingValue, UnknownSetting
from ottla.config.group import GroupConfig, group_defaults
from ottla.config.listener import Listener, parse_listeners, parse_security_protocol_map
from ottla.config.topic import TopicConfig, topic_defaults
from ottla.kernel.errors import ErrorCode, KafkaError


class Difference(NamedTuple):
    name: str
    kafka: str
    ottla: str
    why: str


DIFFERS = (
    Difference(
        "listeners",
        "PLAINTEXT://:9092",
        "PLAINTEXT://localhost:9092",
        "a broker without settings is reached from its own machine only",
    ),
    Difference(
        "node.id, broker.id",
        "required",
        "1",
        "one broker needs no number",
    ),
    Difference(
        "log.dir",
        "/tmp/kafka-logs",
        "ottla-data",
        "what is in /tmp does not last, and may belong to an Apache Kafka",
    ),
    Difference(
        "group.initial.rebalance.delay.ms",
        "3000",
        "0",
        "a first consumer need not wait for more",
    ),
    Difference(
        "offsets.topic.replication.factor, transaction.state.log.replication.factor",
        "3",
        "3; where they are not set, without ZooKeeper, at most as many as there are brokers",
        "one broker would fail otherwise",
    ),
    Difference(
        "socket.send.buffer.bytes, socket.receive.buffer.bytes",
        "102400",
        "-1",
        "the system makes them as large as a connection needs",
    ),
    Difference(
        "listeners, listener.security.protocol.map",
        "can change while the broker runs",
        "read-only",
        "listeners are opened at start",
    ),
)
"""Where defaults are not Kafka's. docs/configuration.md prints it."""

LISTENER_PREFIX = re.compile(r"listener\.name\.[^.]*\.(.*)")

# These come after the mechanism's name: listener.name.NAME.MECHANISM.sasl.jaas.config.
_MECHANISM_SETTINGS = (
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.server.callback.handler.class",
    "connections.max.reauth.ms",
)

# Settings of Kafka's plugins, whose names no table can know.
_PLUGIN_PREFIXES = ("rsm.config.", "rlmm.config.", "config.providers.", "metrics.jmx.")

# What is declared, since clients ask for it, ahead of the part of Ottla that will go by it.
# This list only shrinks.
_NOT_YET = (
    "connection.failed.authentication.delay.",
    "group.coordinator.",
    "log.cleaner.",
    "log.local.retention.",
    "log.preallocate",
    "max.connection.creation.rate",
    "max.connections.per.ip.overrides",
    "num.recovery.threads.",
    "num.replica.",
    "offsets.load.",
    "offsets.topic.compression.",
    "queued.max.requests",
    "quota.",
    "replica.alter.",
    "replica.socket.receive.",
    "socket.connection.setup.",
    "socket.listen.backlog.",
    "transaction.state.log.load.",
    "unclean.leader.election.interval.",
)


class BrokerConfig(
    LogSettings, NetworkSettings, GroupSettings, TransactionSettings, ReplicationSettings
):
    """The settings of one broker, each an attribute (dots as underscores) with a value of its
    type. Made at start from `server.properties` and the command line, replaced as a whole when
    a setting changes dynamically; never changed itself.

    `log_dirs`, `listeners`, `advertised_listeners`, `inter_broker_listener_name` and
    `node_id`/`broker_id` are what follows from all settings together, not only from the one of
    that name.
    """

    def __init__(
        self,
        static: Mapping[str, str] | None = None,
        *,
        dynamic: Mapping[str, str] | None = None,
        dynamic_default: Mapping[str, str] | None = None,
    ) -> None:
        """`dynamic` is of this broker (/config/brokers/ID), `dynamic_default` of all
        (/config/brokers/<default>). Raises KafkaError(INVALID_CONFIG), with a `name`."""
        values = self.__dict__
        values["static"] = dict(static or {})
        values["dynamic"] = dict(dynamic or {})
        values["dynamic_default"] = dict(dynamic_default or {})
        given: dict[str, SettingValue] = {}
        for source in (self.static, self.dynamic_default, self.dynamic):
            for name, text in source.items():
                given[name] = known_setting(name).parse(text, name)
        check_refused(given)
        values["given"] = given
        for name, value in given.items():
            if name in BROKER_SETTINGS:
                values[name.replace(".", "_")] = value
        self._settle_identity()
        self._settle_listeners()
        values["log_dirs"] = given.get("log.dirs") or self.log_dir
        check_together(self)

    static: dict[str, str]
    dynamic: dict[str, str]
    dynamic_default: dict[str, str]
    given: dict[str, SettingValue]
    """What was set, from whichever source, with its type; of a name set twice the stronger."""

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a BrokerConfig does not change, so {name} cannot be set")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a BrokerConfig does not change, so {name} cannot be deleted")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BrokerConfig):
            return NotImplemented
        return self.sources() == other.sources()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = {
            n: "[hidden]" if known_setting(n).is_sensitive else v for n, v in self.given.items()
        }
        return f"BrokerConfig({shown})"

    def sources(self) -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
        return self.dynamic, self.dynamic_default, self.static

    def with_dynamic(
        self, dynamic: Mapping[str, str], dynamic_default: Mapping[str, str]
    ) -> BrokerConfig:
        return BrokerConfig(self.static, dynamic=dynamic, dynamic_default=dynamic_default)

    @cached_property
    def topic_defaults(self) -> TopicConfig:
        """What a topic without settings of its own has."""
        return topic_defaults(self)

    @cached_property
    def group_defaults(self) -> GroupConfig:
        """What a group without settings of its own has."""
        return group_defaults(self)

    def without_effect(self) -> list[str]:
        """The settings that were given and do nothing here, for one line in the log at start."""
        return sorted(filter(has_no_effect, self.given))

    def _settle_identity(self) -> None:
        ids = {name: self.given[name] for name in ("node.id", "broker.id") if name in self.given}
        if len(set(ids.values())) == 2:
            raise InvalidSetting(
                "broker.id", ids["broker.id"], f"node.id is {ids['node.id']}, and is the same thing"
            )
        for node_id in ids.values():
            # Kafka 3 took -1 as "pick one", which needs ZooKeeper's memory.
            if not isinstance(node_id, int) or node_id < 0:
                raise InvalidSetting(next(iter(ids)), node_id, "Value must be at least 0")
            self.__dict__.update(node_id=node_id, broker_id=node_id)

    def _settle_listeners(self) -> None:
        name = "listener.security.protocol.map"
        text = str(self.given.get(name, BROKER_SETTINGS[name].default))
        protocols = parse_security_protocol_map(name, text)
        items: Any = self.given.get("listeners", BROKER_SETTINGS["listeners"].default)
        listeners = parse_listeners(
            "listeners",
            items,
            protocols,
            leave_out=self.controller_listener_names,
            ports_must_differ=True,
        )
        if not listeners:
            raise InvalidSetting(
                "listeners", ",".join(items), "every one is in controller.listener.names"
            )
        advertised = listeners
        advertised_items: Any = self.given.get("advertised.listeners")
        if advertised_items is not None:
            advertised = parse_listeners(
                "advertised.listeners",
                advertised_items,
                protocols,
                leave_out=self.controller_listener_names,
                ports_must_differ=False,
            )
        _check_advertised(advertised, listeners)
        self.__dict__.update(
            listener_security_protocol_map=protocols,
            listeners=listeners,
            advertised_listeners=advertised,
            inter_broker_listener_name=self._inter_broker_listener_name(advertised),
        )

    def _inter_broker_listener_name(self, advertised: tuple[Listener, ...]) -> str:
        own, protocol = "inter.broker.listener.name", "security.inter.broker.protocol"
        if own in self.given and protocol in self.given:
            raise InvalidSetting(own, self.given[own], f"{protocol} is set too; set only one")
        name = str(self.given.get(own) or self.security_inter_broker_protocol).upper()
        names = [listener.name for listener in advertised]
        if name not in names:
            raise InvalidSetting(
                own, name, f"It must be one of the advertised listeners: {', '.join(names)}"
            )
        return name


BROKER_SETTINGS: dict[str, Setting] = dict(
    sorted(
        (name, declared)
        for group in BrokerConfig.__mro__[1:-1]
        for name, declared in group.SETTINGS.items()  # type: ignore[attr-defined]
    )
)


def known_setting(name: str) -> Setting:
    """A broker setting by name, also with a listener's prefix. Raises UnknownSetting."""
    found = BROKER_SETTINGS.get(name) or unused_settings().get(name)
    if found is not None:
        return found
    base = base_name(name)
    if base != name:
        found = BROKER_SETTINGS.get(base) or unused_settings().get(base)
        if found is not None:
            return found
    if name.startswith(_PLUGIN_PREFIXES):
        return unused_settings()["security.providers"]
    raise UnknownSetting("broker", name, [*BROKER_SETTINGS, *unused_settings()])


def has_no_effect(name: str) -> bool:
    return name not in BROKER_SETTINGS or name.startswith(_NOT_YET)


def base_name(name: str) -> str:
    """`listener.name.NAME.[MECHANISM.]BASE` is BASE for one listener; other names are their
    own."""
    prefixed = LISTENER_PREFIX.fullmatch(name)
    if prefixed is None:
        return name
    inner = prefixed[1]
    return next((setting for setting in _MECHANISM_SETTINGS if inner.endswith(setting)), inner)


def _check_advertised(advertised: tuple[Listener, ...], listeners: tuple[Listener, ...]) -> None:
    names = [listener.name for listener in listeners]
    for listener in advertised:
        if listener.name not in names:
            raise InvalidSetting(
                "advertised.listeners",
                listener,
                f"{listener.name} is not in listeners, which has {', '.join(names)}",
            )
        if listener.host == "0.0.0.0":
            raise InvalidSetting(
                "advertised.listeners",
                listener,
                "Clients cannot connect to 0.0.0.0; set advertised.listeners to an address that "
                "they can reach",
            )
    if not advertised:
        raise KafkaError(ErrorCode.INVALID_CONFIG, "advertised.listeners names no broker listener")
