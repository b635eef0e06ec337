"""What the options of a read and of a write have in common: how they are checked, and how a cluster
is reached."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from ottla.client.blocking_cluster import BlockingCluster

T = TypeVar("T")

RETRY_OPTION = "kafka.default.api.timeout.ms"
"""How long a broker that went away is waited for, named as Kafka's clients name it."""

CONNECTION_OPTIONS = (
    "kafka.bootstrap.servers",
    "kafka.client.id",
    "kafka.security.protocol",
    "kafka.request.timeout.ms",
)
CLIENT_OPTIONS_WITHOUT_EFFECT = (
    "kafka.auto.include.jmx.reporter",
    "kafka.client.dns.lookup",
    "kafka.connections.max.idle.ms",
    "kafka.enable.metrics.push",
    "kafka.metadata.max.age.ms",
    "kafka.metric.reporters",
    "kafka.metrics.num.samples",
    "kafka.metrics.recording.level",
    "kafka.metrics.sample.window.ms",
    "kafka.receive.buffer.bytes",
    "kafka.reconnect.backoff.max.ms",
    "kafka.reconnect.backoff.ms",
    "kafka.retry.backoff.max.ms",
    "kafka.retry.backoff.ms",
    "kafka.send.buffer.bytes",
    "kafka.socket.connection.setup.timeout.max.ms",
    "kafka.socket.connection.setup.timeout.ms",
)
"""What tunes Kafka's own clients, which are not used here. It is taken: a job that sets it runs."""


_KAFKA = "kafka."


class OptionError(ValueError):
    """Says which option it is about, what is wrong with it, and what to do."""

    def __init__(self, option: str, problem: str, remedy: str) -> None:
        super().__init__(f"option {option}: {problem}; {remedy}")
        self.option = option

    def __reduce__(self) -> tuple[Any, ...]:
        # It crosses from one process of Spark's to another, and is not made of its own text.
        return _as_it_was, (self.option, str(self))


def _as_it_was(option: str, text: str) -> OptionError:
    error = OptionError.__new__(OptionError)
    ValueError.__init__(error, text)
    error.option = option
    return error


class GivenOptions:
    """The options as they were given, after their names were checked."""

    def __init__(self, options: Mapping[str, str], known: Iterable[str]) -> None:
        """`known` as they are to be spelt; in any case, as Spark has them."""
        spelt = {name.lower(): name for name in known}
        self._values: dict[str, str] = {}
        for name, value in options.items():
            option = spelt.get(name.lower())
            if option is None:
                raise _unknown(name, spelt)
            self._values[option] = value

    def text(self, option: str) -> str | None:
        return self._values.get(option)

    def only_one_of(self, options: tuple[str, ...]) -> str | None:
        found = [option for option in options if option in self._values]
        if len(found) > 1:
            raise OptionError(found[0], f"clashes with {found[1]}", "remove one of them")
        return found[0] if found else None

    def first_of(self, options: tuple[str, ...]) -> str | None:
        """The first that was given: where Spark's connector has an order of precedence."""
        return next((option for option in options if option in self._values), None)

    def parsed(self, option: str, parse: Callable[[str], T]) -> T | None:
        """None where it was not given. What `parse` says with a ValueError is the problem and the
        remedy."""
        text = self._values.get(option)
        if text is None:
            return None
        try:
            return parse(text.strip())
        except ValueError as error:
            raise OptionError(option, f"{text!r} cannot be used", str(error)) from None

    def required(self, option: str, parse: Callable[[str], T]) -> T:
        value = self.parsed(option, parse)
        if value is None:
            raise OptionError(option, "is missing", "set it")
        return value

    def seconds(self, option: str, default_ms: int) -> float:
        """Of an option that is in milliseconds."""
        return (self.parsed(option, positive) or default_ms) / 1000


def _unknown(name: str, spelt: Mapping[str, str]) -> OptionError:
    lower = name.lower()
    if lower.startswith(("kafka.sasl.", "kafka.ssl.")):
        return OptionError(
            name, "is not supported yet", "use a PLAINTEXT listener of the broker, and remove it"
        )
    near = [spelt[found] for found in difflib.get_close_matches(lower, spelt, 1)]
    if lower.startswith(_KAFKA):
        # What begins alike is not alike.
        rests = {known.removeprefix(_KAFKA): option for known, option in spelt.items()}
        close = difflib.get_close_matches(lower.removeprefix(_KAFKA), rests, 1, cutoff=0.75)
        near = [rests[found] for found in close]
    near += [option for known, option in spelt.items() if lower in known.split(".")]
    if near:
        return OptionError(name, "is not known", f"did you mean {near[0]}?")
    return OptionError(name, "is not known", f"remove it; there are {', '.join(spelt.values())}")


@dataclass(frozen=True, slots=True)
class Connection:
    """How the cluster is reached. Parsed on the driver, and sent to every task."""

    bootstrap: tuple[tuple[str, int], ...]
    client_id: str
    request_timeout_s: float
    retry_timeout_s: float
    retry_option: str = RETRY_OPTION
    """What an error names that says for how long it was tried."""

    @classmethod
    def parse(
        cls, given: GivenOptions, *, retry_option: str = RETRY_OPTION, retry_ms: int = 60_000
    ) -> Connection:
        protocol = given.text("kafka.security.protocol") or "PLAINTEXT"
        if protocol != "PLAINTEXT":
            raise OptionError(
                "kafka.security.protocol",
                f"{protocol} is not supported yet",
                "use a PLAINTEXT listener of the broker",
            )
        return cls(
            bootstrap=given.required("kafka.bootstrap.servers", addresses),
            client_id=given.text("kafka.client.id") or "ottla-pipeline",
            request_timeout_s=given.seconds("kafka.request.timeout.ms", 30_000),
            retry_timeout_s=given.seconds(retry_option, retry_ms),
            retry_option=retry_option,
        )

    def cluster(self) -> BlockingCluster:
        """For whoever closes it."""
        return BlockingCluster(
            self.bootstrap,
            client_id=self.client_id,
            request_timeout_s=self.request_timeout_s,
            retry_timeout_s=self.retry_timeout_s,
            retry_option=self.retry_option,
        )


# -- texts -------------------------------------------------------------------------------------


def addresses(text: str) -> tuple[tuple[str, int], ...]:
    addresses = []
    for one in comma_separated(text):
        host, _, port = one.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise ValueError(f"write host:port,host:port; {one!r} is not host:port")
        addresses.append((host.removeprefix("[").removesuffix("]"), int(port)))
    return tuple(addresses)


def comma_separated(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise ValueError("name at least one, with commas between them")
    return names


def boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("set it to true or false")
    return text.lower() == "true"


def positive(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise ValueError("set it to a whole number above 0")
    return int(text)


def json_object(text: str, how: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        raise ValueError(how) from None
    if not isinstance(found, dict):
        raise ValueError(how)
    return found
