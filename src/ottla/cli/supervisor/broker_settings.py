"""What each of several brokers is started with: its id, its port, its data dir, and the store that
they share. All else is what was given for all of them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from ottla.cli.errors import ExitCode, Failure
from ottla.cli.start import (
    CLUSTER_FILE,
    DEFAULT_ADDRESS,
    DEFAULT_DATA_DIR,
    Settings,
    given_settings,
)

_FOR_ONE = {
    "broker.id": "--broker-id",
    "node.id": "--broker-id",
    "log.dirs": "--data-dir",
    "log.dir": "--data-dir",
    "listeners": "--listen",
    "advertised.listeners": "--advertise",
}
"""Settings of one broker; the option that says it for all of them."""

_REPLICAS = 3
_MIN_ISR = 2


class Plan(NamedTuple):
    folder: str
    cluster_file: str
    brokers: Sequence[Settings]


def plan_brokers(settings: Settings) -> Plan:
    """Raises Failure where these settings are not for several brokers."""
    count = _count(settings.brokers)
    given = given_settings(settings)
    if settings.zookeeper is not None or "zookeeper.connect" in given:
        raise Failure(
            "--brokers is for brokers of one machine, which need no ZooKeeper; with --zookeeper, "
            "start each by itself",
            ExitCode.USAGE,
        )
    _check_for_one(settings, list(given))
    folder = settings.data_dir or DEFAULT_DATA_DIR
    cluster_file = given.get("ottla.coordination.file", os.path.join(folder, CLUSTER_FILE))
    common = _defaults(count, list(given))
    common += [f"ottla.coordination.file={cluster_file}"]
    listens = _addresses("--listen", settings.listen or DEFAULT_ADDRESS, count)
    advertises: Sequence[str | None] = [None] * count
    if settings.advertise is not None:
        advertises = _addresses("--advertise", settings.advertise, count)
    brokers = [
        settings._replace(
            brokers=None,
            restart=False,
            broker_id=str(number),
            data_dir=os.path.join(folder, f"broker-{number}"),
            listen=listen,
            advertise=advertise,
            set=(*settings.set, *common),
        )
        for number, (listen, advertise) in enumerate(zip(listens, advertises, strict=True), start=1)
    ]
    return Plan(folder, cluster_file, brokers)


def _count(text: str | None) -> int:
    if text is None or not (text.isascii() and text.isdigit()) or int(text) < 1:
        raise Failure(f"--brokers {text}: give a number from 1 on", ExitCode.USAGE)
    return int(text)


def _check_for_one(settings: Settings, given: Sequence[str]) -> None:
    if settings.broker_id is not None:
        raise Failure("--broker-id is for one broker: --brokers counts from 1", ExitCode.USAGE)
    for name, flag in _FOR_ONE.items():
        if name in given and getattr(settings, flag[2:].replace("-", "_")) is None:
            remedy = "remove it" if flag == "--broker-id" else f"give {flag}, from which they count"
            raise Failure(f"{name} is for one broker; with --brokers, {remedy}", ExitCode.USAGE)


def _defaults(count: int, given: Sequence[str]) -> list[str]:
    """As durable as Kafka's own, where there are enough brokers. Internal topics wait for as many:
    made with fewer replicas they would stay so."""
    replicas = min(_REPLICAS, count)
    values = {
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": _MIN_ISR if replicas > _MIN_ISR else 1,
    }
    return [f"{name}={value}" for name, value in values.items() if name not in given]


def _addresses(flag: str, address: str, count: int) -> list[str]:
    """The port and those after it; or any, where it is 0."""
    host, colon, port = address.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit()):
        raise Failure(
            f"{flag} {address}: give it as HOST:PORT, such as {DEFAULT_ADDRESS}", ExitCode.USAGE
        )
    first = int(port)
    if first and first + count - 1 > 65535:
        raise Failure(
            f"{flag} {address}: {count} brokers need the ports to {first + count - 1}, and there "
            "are 65535",
            ExitCode.USAGE,
        )
    return [f"{host}:{first + number if first else 0}" for number in range(count)]


def arguments(settings: Settings) -> list[str]:
    """The command line of one of them."""
    found = ["start"]
    for name, value in settings._asdict().items():
        flag = "--" + name.replace("_", "-")
        if name == "set":
            for text in settings.set:
                found += [flag, text]
        elif value is True:
            found.append(flag)
        elif value not in (None, False):
            found += [flag, value]
    return found
