"""The generator of log lines, and its truth against answers worked out by hand."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict

import pytest

from ottla.pipeline.generate.event import Event, limited
from ottla.pipeline.generate.logs import (
    APACHE,
    FORMATS,
    JSON,
    LOGFMT,
    NGINX,
    SERVICES,
    SYSLOG,
    ErrorRate,
    Generator,
    Line,
    truth,
)
from ottla.pipeline.generate.times import access_time_of, iso_of

DAY = 1_767_225_600_000  # 2026-01-01T00:00Z
MINUTE = 60_000

_ISO = r"(?P<time>\S+Z)"
_ACCESS = (
    r'10\.0\.\d+\.\d+ - - \[(?P<time>[^]]+)\] "(?P<message>GET \S+ HTTP/1\.1)" (?P<status>\d+) \d+'
)
# As strict as the generator is simple: what a broken line must not fit.
PATTERNS = {
    LOGFMT: rf"time={_ISO} level=(?P<level>\w+) service=(?P<service>\w+) host=(?P<host>\S+) "
    r'msg="(?P<message>.*)"',
    SYSLOG: rf"<(?P<priority>\d{{1,2}})>1 {_ISO} (?P<host>\S+) (?P<service>\w+) \d+ - - "
    r"(?P<message>.*)",
    NGINX: _ACCESS + ' "-" "Mozilla/5.0"',
    APACHE: _ACCESS,
}


def parsed(value: bytes, format: str) -> dict[str, str] | None:
    try:
        text = value.decode()
        if format == JSON:
            fields: dict[str, str] = json.loads(text)
            return fields
    except ValueError:
        return None
    match = re.fullmatch(PATTERNS[format], text)
    return None if match is None else match.groupdict()


def level_of(fields: dict[str, str]) -> str:
    if "priority" in fields:
        return {15: "debug", 14: "info", 12: "warning", 11: "error"}[int(fields["priority"])]
    if "status" in fields:
        return {"4": "warning", "5": "error"}.get(fields["status"][0], "info")
    return fields["level"]


def event(time_ms: int, service: str, level: str) -> Event[Line]:
    line = Line(time_ms, service, JSON, level, "h", "m")
    return Event(time_ms, time_ms, service.encode(), b"", line)


def test_lines_by_day_and_service_and_errors_by_minute() -> None:
    answers = truth(
        [
            event(DAY - 1, "cart", "info"),
            event(DAY, "cart", "error"),
            event(DAY + 59_999, "cart", "warning"),
            event(DAY + MINUTE, "cart", "info"),
            event(DAY + 1, "auth", "debug"),
            Event(DAY, DAY, b"cart", b"?", None),
        ]
    )

    assert answers.lines == {
        (DAY - 86_400_000, "cart"): 1,
        (DAY, "auth"): 1,
        (DAY, "cart"): 3,
    }
    assert answers.minutes == {
        (DAY - MINUTE, "cart"): ErrorRate(lines=1, errors=0),
        (DAY, "auth"): ErrorRate(1, 0),
        (DAY, "cart"): ErrorRate(2, 1),
        (DAY + MINUTE, "cart"): ErrorRate(1, 0),
    }
    assert answers.minutes[DAY, "cart"].rate == 0.5
    assert answers.broken == 1


def test_the_answers_add_up() -> None:
    events = list(limited(Generator(1, 20, DAY), count=20_000))
    answers = truth(events)

    whole = [e.fact for e in events if e.fact is not None]
    assert len(whole) + answers.broken == len(events)
    assert sum(answers.lines.values()) == len(whole)
    assert sum(rate.lines for rate in answers.minutes.values()) == len(whole)
    errors = sum(line.level == "error" for line in whole)
    assert sum(rate.errors for rate in answers.minutes.values()) == errors
    assert {service for _, service in answers.lines} == set(SERVICES)


@pytest.mark.parametrize("format", FORMATS)
def test_lines_say_what_their_facts_say(format: str) -> None:
    seen = 0
    for e in limited(Generator(2, 20, DAY), count=3000):
        if e.fact is None or e.fact.format != format:
            continue
        seen += 1
        line, fields = e.fact, parsed(e.value, format)
        assert fields is not None, e.value
        is_access = format in (NGINX, APACHE)
        assert fields["time"] == (access_time_of if is_access else iso_of)(line.time_ms)
        assert e.event_time_ms == line.time_ms
        assert not is_access or line.time_ms % 1000 == 0
        assert fields["message"].replace('\\"', '"') == line.message
        assert level_of(fields) == line.level
        assert e.key.decode() == line.service == fields.get("service", line.service)
        assert fields.get("host") == line.host
    assert seen > 100


def test_broken_lines_fit_their_format_no_more() -> None:
    ways: defaultdict[str, Counter[bool]] = defaultdict(Counter)
    for e in limited(Generator(3, 20, DAY), count=20_000):
        if e.is_broken:
            format = SERVICES[e.key.decode()]
            assert parsed(e.value, format) is None, e.value
            ways[format][e.value.startswith(b"\xff")] += 1

    assert {format: set(way) for format, way in ways.items()} == {
        format: {True, False} for format in FORMATS
    }


def test_a_service_in_trouble_shows_in_its_error_rate() -> None:
    answers = truth(limited(Generator(1, 20, DAY), end_ms=DAY + 3 * 3_600_000))

    rates = sorted(rate.rate for rate in answers.minutes.values() if rate.lines >= 50)
    assert rates[len(rates) // 2] < 0.05
    assert rates[-1] > 0.2
