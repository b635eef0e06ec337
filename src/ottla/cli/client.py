"""The connection to a cluster that every tool shares: its options, its clients, and what its
errors mean in words."""

from __future__ import annotations

import functools
import re
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

import click
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, TopicMetadata

from ottla.cli.command_line import command_line
from ottla.cli.errors import Failure, warn
from ottla.cli.options import pairs
from ottla.cli.suggestions import no_such_topic

DEFAULT_BOOTSTRAP = "localhost:9092"
REQUEST_TIMEOUT_S = 30.0
_CONNECT_TIMEOUT_S = 5.0
METADATA_TIMEOUT_S = 10.0
# A broker that creates topics by itself first answers that the topic is unknown.
_AUTO_CREATE_WAIT_S = 5.0

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Cluster:
    """Where a command's cluster is and how to reach it. Lives as long as the command."""

    bootstrap: str
    properties: Mapping[str, str]

    def admin(self, settings: Mapping[str, Any] | None = None) -> AdminClient:
        self.check_reachable()
        return AdminClient(self._settings(settings or {}))

    def producer(self, settings: Mapping[str, Any]) -> Producer:
        self.check_reachable()
        return Producer(self._settings(settings))

    def consumer(self, settings: Mapping[str, Any]) -> Consumer:
        self.check_reachable()
        # librdkafka wants a group's name even when partitions are assigned by hand; nothing
        # is ever committed to it.
        by_hand = {
            "group.id": "ottla-consume",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
        }
        return Consumer(self._settings({**by_hand, **settings}))

    def check_reachable(self) -> None:
        """librdkafka retries in silence until a time-out; a plain connect knows at once why."""
        reasons = []
        for host, port in addresses_of(self.effective_bootstrap):
            try:
                socket.create_connection((host, port), timeout=_CONNECT_TIMEOUT_S).close()
            except OSError as error:
                reasons.append(_reason(error, host))
            else:
                return
        raise Failure(
            f"no broker answers at {self.effective_bootstrap} ({', '.join(sorted(set(reasons)))}); "
            f"start one with `{command_line('start')}` or pass --bootstrap HOST:PORT"
        )

    @property
    def effective_bootstrap(self) -> str:
        return self.properties.get("bootstrap.servers", self.bootstrap)

    def _settings(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        quiet = {"log_level": 7 if "debug" in self.properties else 0}
        base = {
            "bootstrap.servers": self.bootstrap,
            "client.id": "ottla-cli",
            "error_cb": _ConnectionWatch(),
            "allow.auto.create.topics": False,
        }
        return {**quiet, **base, **settings, **self.properties}


class _ConnectionWatch:
    """Called by librdkafka for errors that belong to no request. Says once that the brokers
    went away, since a client that reconnects in silence looks like one that hangs."""

    def __init__(self) -> None:
        self._has_warned = False

    def __call__(self, error: KafkaError) -> None:
        if error.fatal():
            warn(f"the client stopped: {error.str()}")
        elif error.code() == KafkaError._ALL_BROKERS_DOWN and not self._has_warned:
            self._has_warned = True
            warn("the connection to the brokers was lost; trying to reconnect")


def client_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds --bootstrap and --property, and hands the command a `cluster`."""

    @functools.wraps(command)
    def with_cluster(*args: Any, bootstrap: str, properties: tuple[str, ...], **kwargs: Any) -> Any:
        cluster = Cluster(bootstrap, pairs(properties, "--property"))
        addresses_of(cluster.effective_bootstrap)
        try:
            return command(*args, cluster=cluster, **kwargs)
        except KafkaException as error:
            raise Failure(explain(error, cluster)) from error

    with_property = click.option(
        "--property",
        "properties",
        multiple=True,
        metavar="KEY=VALUE",
        help="Any librdkafka setting, such as security.protocol=SSL. May be repeated.",
    )(with_cluster)
    return click.option(
        "--bootstrap",
        envvar="OTTLA_BOOTSTRAP",
        default=DEFAULT_BOOTSTRAP,
        metavar="HOST:PORT",
        help=f"Brokers to connect to, with commas. OTTLA_BOOTSTRAP sets it too. "
        f"[default: {DEFAULT_BOOTSTRAP}]",
    )(with_property)


def addresses_of(bootstrap: str) -> list[tuple[str, int]]:
    """Raises a usage error for what is no list of HOST:PORT."""
    addresses = []
    for part in bootstrap.split(","):
        text = part.strip().rpartition("://")[2]
        match = re.fullmatch(r"(?:\[(?P<six>[^]]+)\]|(?P<host>[^:\s]+))(?::(?P<port>\d+))?", text)
        if match is None or int(match["port"] or 0) > 65535:
            raise click.BadParameter(f"{part!r} is not HOST:PORT", param_hint="'--bootstrap'")
        addresses.append((match["six"] or match["host"], int(match["port"] or 9092)))
    return addresses


def wait_for(futures: Mapping[Any, Future[Answer]]) -> tuple[dict[Any, Answer], dict[Any, str]]:
    """What each request answered, and what it failed with."""
    answers: dict[Any, Answer] = {}
    failures: dict[Any, str] = {}
    for name, future in futures.items():
        try:
            answers[name] = future.result(timeout=REQUEST_TIMEOUT_S + METADATA_TIMEOUT_S)
        except KafkaException as error:
            failures[name] = message_of(error)
    return answers, failures


def all_must_succeed(futures: Mapping[Any, Future[Any]], what: str) -> None:
    """Raises Failure, which says what was tried, for those that did not."""
    _, failures = wait_for(futures)
    if failures:
        raise Failure(f"{what} {one_line(failures.items())}")


def find_topic(
    client: AdminClient | Producer | Consumer, topic: str, *, may_appear: bool = False
) -> TopicMetadata:
    """The topic's metadata. With `may_appear`, a broker gets time to create it by itself, and that
    it did is said."""
    # To ask for one topic is what creates it, and to ask for all of them is not.
    is_new = may_appear and topic not in client.list_topics(timeout=METADATA_TIMEOUT_S).topics
    deadline_s = time.monotonic() + (_AUTO_CREATE_WAIT_S if may_appear else 0)
    while True:
        metadata: TopicMetadata = client.list_topics(topic, timeout=METADATA_TIMEOUT_S).topics[
            topic
        ]
        if metadata.error is None:
            if is_new:
                count = len(metadata.partitions)
                warn(f"created topic {topic} with {count} partition{'' if count == 1 else 's'}")
            return metadata
        is_unknown = metadata.error.code() in (
            KafkaError.UNKNOWN_TOPIC_OR_PART,
            KafkaError.LEADER_NOT_AVAILABLE,
        )
        if not is_unknown:
            raise KafkaException(metadata.error)
        if time.monotonic() >= deadline_s:
            raise no_such_topic(topic, client.list_topics(timeout=METADATA_TIMEOUT_S).topics)
        time.sleep(0.1)


def explain(error: KafkaException, cluster: Cluster) -> str:
    kafka_error = error.args[0] if error.args else None
    if not isinstance(kafka_error, KafkaError):
        return str(error)
    code = kafka_error.code()
    where = cluster.effective_bootstrap
    if code == KafkaError._INVALID_ARG:
        return f"bad client setting: {kafka_error.str()}"
    if code in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN):
        return (
            f"{where} accepts connections but does not answer as a Kafka broker; check the port, "
            "and --property security.protocol=... if it wants TLS or SASL"
        )
    if code in (KafkaError._TIMED_OUT, KafkaError._TIMED_OUT_QUEUE):
        return f"{where} did not answer in time ({kafka_error.str()})"
    return message_of(error)


def message_of(error: KafkaException) -> str:
    """The broker's own words, with the error's name, which is what one searches for."""
    kafka_error = error.args[0] if error.args else None
    if not isinstance(kafka_error, KafkaError):
        return str(error)
    text = (kafka_error.str() or "").removeprefix("Broker: ").removeprefix("Local: ").rstrip(".")
    return f"{text} ({kafka_error.name().removeprefix('_')})"


def one_line(failures: Iterable[tuple[str, str]]) -> str:
    return "; ".join(f"{name}: {reason}" for name, reason in failures)


def _reason(error: OSError, host: str) -> str:
    if isinstance(error, socket.gaierror):
        return f"the name {host} is unknown"
    if isinstance(error, TimeoutError):
        return "connection timed out"
    return (error.strerror or str(error)).lower()
