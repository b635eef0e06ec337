"""Log lines of many services in five formats, and what the logs pipeline must say of them.
docs/pipelines/logs.md has the formats and the definitions."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from random import Random

from ottla.pipeline.generate.chance import Weighted, below, one_of, zipf
from ottla.pipeline.generate.event import Event, arrival_of, in_arrival_order
from ottla.pipeline.generate.rhythm import DAY_MS, MINUTE_MS, SECOND_MS, Rhythm
from ottla.pipeline.generate.times import access_time_of, iso_of

JSON, LOGFMT, SYSLOG, NGINX, APACHE = FORMATS = ("json", "logfmt", "syslog", "nginx", "apache")

SERVICES: Mapping[str, str] = {
    "checkout": JSON,
    "edge": NGINX,
    "search": LOGFMT,
    "auth": SYSLOG,
    "static": APACHE,
    "cart": JSON,
    "mail": SYSLOG,
    "billing": LOGFMT,
}
"""The busiest first."""

LEVELS = ("debug", "info", "warning", "error")
_CALM_WEIGHTS = (0.20, 0.74, 0.05, 0.01)
_TROUBLED_WEIGHTS = (0.10, 0.45, 0.15, 0.30)
_TROUBLE_BLOCK_MS = 10 * MINUTE_MS
_TROUBLE_SHARE = 0.05
_BROKEN_SHARE = 0.01
_HOSTS = 4
# RFC 5424, 6.2.1: facility 1 is user-level messages; the severities are its own numbers.
_FACILITY = 1
_SEVERITIES = {"debug": 7, "info": 6, "warning": 4, "error": 3}
_STATUSES = {"info": (200, 200, 201, 304), "warning": (404, 403), "error": (500, 502, 503)}
_MESSAGES = {
    "debug": ("cache miss", "pool has 3 idle connections", "lock taken"),
    "info": ("request served", "job done", 'user said "hello"', "configuration = new"),
    "warning": ("slow answer", "retrying", "queue is half full"),
    "error": ("connection refused", "time-out after 30 s", "disk full"),
}


@dataclass(frozen=True, slots=True)
class Line:
    time_ms: int
    """As the line says it: access lines have whole seconds."""
    service: str
    format: str
    level: str
    host: str | None
    """Access lines do not say it."""
    message: str
    """The request, for an access line."""

    @property
    def is_error(self) -> bool:
        return self.level == "error"


class Generator:
    """Makes the same events for the same seed, rate and start; iterating again starts anew."""

    def __init__(self, seed: int, rate: float, start_ms: int) -> None:
        self._seed = f"logs {seed}"
        self._rate = rate
        self._start_ms = start_ms

    def __iter__(self) -> Iterator[Event[Line]]:
        """In the order of arrival, without end."""
        return in_arrival_order(self._by_event_time())

    def _by_event_time(self) -> Iterator[Event[Line]]:
        random = Random(self._seed)
        names = tuple(SERVICES)
        services = zipf(len(names))
        calm, troubled = Weighted(_CALM_WEIGHTS), Weighted(_TROUBLED_WEIGHTS)
        block, in_trouble = -1, frozenset[str]()
        for time_ms in Rhythm(self._seed, self._rate, self._start_ms).times():
            if time_ms // _TROUBLE_BLOCK_MS != block:
                block = time_ms // _TROUBLE_BLOCK_MS
                in_trouble = self._in_trouble(block)
            service = names[services.choose(random)]
            weights = troubled if service in in_trouble else calm
            level = LEVELS[weights.choose(random)]
            yield _event(time_ms, service, level, random)

    def _in_trouble(self, block: int) -> frozenset[str]:
        random = Random(f"{self._seed} trouble {block}")
        return frozenset(name for name in SERVICES if random.random() < _TROUBLE_SHARE)


def _event(time_ms: int, service: str, level: str, random: Random) -> Event[Line]:
    format = SERVICES[service]
    arrival_ms = arrival_of(time_ms, random)
    if format in (NGINX, APACHE):
        text, line = _access_line(time_ms, service, level, random)
    else:
        host = f"{service}-{below(_HOSTS, random) + 1}"
        line = Line(time_ms, service, format, level, host, one_of(_MESSAGES[level], random))
        text = _TEXTS[format](time_ms, service, level, host, line.message)
    is_broken = random.random() < _BROKEN_SHARE
    return Event(
        event_time_ms=line.time_ms,
        arrival_ms=arrival_ms,
        key=service.encode(),
        value=_broken(text, format, random) if is_broken else text.encode(),
        fact=None if is_broken else line,
    )


def _json_line(time_ms: int, service: str, level: str, host: str, message: str) -> str:
    fields = {"time": iso_of(time_ms), "level": level, "service": service, "host": host}
    return json.dumps({**fields, "message": message}, separators=(",", ":"))


def _logfmt_line(time_ms: int, service: str, level: str, host: str, message: str) -> str:
    quoted = message.replace('"', '\\"')
    return f'time={iso_of(time_ms)} level={level} service={service} host={host} msg="{quoted}"'


def _syslog_line(time_ms: int, service: str, level: str, host: str, message: str) -> str:
    priority = _FACILITY * 8 + _SEVERITIES[level]
    return f"<{priority}>1 {iso_of(time_ms)} {host} {service} {1000 + len(host)} - - {message}"


_TEXTS = {JSON: _json_line, LOGFMT: _logfmt_line, SYSLOG: _syslog_line}


def _access_line(time_ms: int, service: str, level: str, random: Random) -> tuple[str, Line]:
    """The combined format of nginx, the common one of Apache. Its level is told by the status,
    which knows none below info."""
    format = SERVICES[service]
    time_ms -= time_ms % SECOND_MS
    level = "info" if level == "debug" else level
    address = f"10.0.{below(256, random)}.{below(256, random)}"
    request = f"GET /page/{below(1000, random) + 1} HTTP/1.1"
    status, size_bytes = one_of(_STATUSES[level], random), below(50_000, random)
    text = f'{address} - - [{access_time_of(time_ms)}] "{request}" {status} {size_bytes}'
    if format == NGINX:
        text += ' "-" "Mozilla/5.0"'
    return text, Line(time_ms, service, format, level, None, request)


def _broken(text: str, format: str, random: Random) -> bytes:
    """Bytes that are no text, or a line that misses its own format."""
    if below(2, random) == 0:
        return b"\xff" + text.encode()
    if format == JSON:
        return text.encode()[:-2]
    if format == LOGFMT:
        return text.replace("time=", "at ").encode()
    if format == SYSLOG:
        return text.replace("<", "<9", 1).encode()
    return text.replace("[", "", 1).encode()


@dataclass(frozen=True, slots=True)
class ErrorRate:
    lines: int
    errors: int

    @property
    def rate(self) -> float:
        return self.errors / self.lines


@dataclass(frozen=True, slots=True)
class Truth:
    """The exact answers. Minutes and days are named by their first millisecond, in UTC."""

    lines: Mapping[tuple[int, str], int]
    """By day and service."""
    minutes: Mapping[tuple[int, str], ErrorRate]
    """By minute and service."""
    broken: int


def truth(events: Iterable[Event[Line]]) -> Truth:
    days: Counter[tuple[int, str]] = Counter()
    lines: Counter[tuple[int, str]] = Counter()
    errors: Counter[tuple[int, str]] = Counter()
    broken = 0
    for event in events:
        line = event.fact
        if line is None:
            broken += 1
            continue
        minute = (line.time_ms - line.time_ms % MINUTE_MS, line.service)
        days[line.time_ms - line.time_ms % DAY_MS, line.service] += 1
        lines[minute] += 1
        errors[minute] += line.is_error
    return Truth(
        lines=dict(sorted(days.items())),
        minutes={minute: ErrorRate(lines[minute], errors[minute]) for minute in sorted(lines)},
        broken=broken,
    )
