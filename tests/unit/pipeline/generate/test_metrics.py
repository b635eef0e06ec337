"""The generator of metrics, and its truth against answers worked out by hand."""

from __future__ import annotations

import json

import pytest

from ottla.pipeline.generate.event import Event, limited
from ottla.pipeline.generate.metrics import (
    CPU,
    HOSTS,
    LATENCY,
    METRICS,
    WINDOWS_S,
    Alarm,
    Generator,
    Rule,
    Sample,
    Window,
    WindowKey,
    truth,
    window_of,
)
from ottla.pipeline.generate.times import iso_of

HOUR = 1_767_225_600_000  # 2026-01-01T00:00Z


def event(time_ms: int, value: float, metric: str = CPU, host: str = "a") -> Event[Sample]:
    return Event(time_ms, time_ms, b"", b"", Sample(time_ms, host, metric, value))


EVENTS = [
    event(HOUR, 10.0),
    event(HOUR + 9_999, 40.0),
    event(HOUR + 10_000, 100.0),
    event(HOUR + 5_000, 20.0),  # late
    event(HOUR, 7.0, host="b"),
    Event(HOUR, HOUR, b"a", b"{", None),
]


def test_windows_of_ten_seconds_a_minute_and_an_hour() -> None:
    answers = truth(EVENTS, rules=())

    first = Window(count=3, min=10.0, max=40.0, mean=70 / 3, p50=20.0, p99=40.0)
    whole = Window(count=4, min=10.0, max=100.0, mean=42.5, p50=20.0, p99=100.0)
    other = Window(1, 7.0, 7.0, 7.0, 7.0, 7.0)
    assert answers.windows == {
        WindowKey(HOUR, 10, "a", CPU): first,
        WindowKey(HOUR + 10_000, 10, "a", CPU): Window(1, 100.0, 100.0, 100.0, 100.0, 100.0),
        WindowKey(HOUR, 60, "a", CPU): whole,
        WindowKey(HOUR, 3600, "a", CPU): whole,
        **{WindowKey(HOUR, window_s, "b", CPU): other for window_s in WINDOWS_S},
    }
    assert (answers.alarms, answers.broken) == ([], 1)


@pytest.mark.parametrize(
    ("count", "p50", "p99"), [(1, 1, 1), (2, 1, 2), (99, 50, 99), (100, 50, 99), (101, 51, 100)]
)
def test_percentiles_are_by_nearest_rank(count: int, p50: int, p99: int) -> None:
    window = window_of(float(value) for value in range(count, 0, -1))

    assert (window.p50, window.p99) == (p50, p99)


def test_the_mean_does_not_depend_on_the_order() -> None:
    values = [1e16, 1.0, -1e16, 1.0]

    assert window_of(values).mean == window_of(reversed(values)).mean == 0.5


def test_alarms_are_the_windows_above_a_threshold() -> None:
    rules = [
        Rule("mean", CPU, "mean", 42.4, 60),
        Rule("not above", CPU, "max", 100.0, 10),
        Rule("max", CPU, "max", 40.0, 10),
        Rule("low", CPU, "min", 9.0, 3600),
        Rule("many", CPU, "count", 2, 10),
        Rule("other metric", LATENCY, "max", 0.0, 10),
    ]

    assert truth(EVENTS, rules).alarms == [
        Alarm(HOUR, "low", "a", 10.0),
        Alarm(HOUR, "many", "a", 3.0),
        Alarm(HOUR, "mean", "a", 42.5),
        Alarm(HOUR + 10_000, "max", "a", 100.0),
    ]


def test_the_answers_add_up() -> None:
    events = list(limited(Generator(1, 20, HOUR), count=20_000))
    answers = truth(events)

    whole = [e.fact for e in events if e.fact is not None]
    assert len(whole) + answers.broken == len(events)
    for window_s in WINDOWS_S:
        windows = [w for key, w in answers.windows.items() if key.window_s == window_s]
        assert sum(window.count for window in windows) == len(whole)
        assert min(window.min for window in windows) == min(sample.value for sample in whole)
        assert max(window.max for window in windows) == max(sample.value for sample in whole)
    assert all(w.min <= w.p50 <= w.p99 <= w.max for w in answers.windows.values())
    assert {(key.host, key.metric) for key in answers.windows} == {
        (f"host-{number}", metric) for number in range(1, HOSTS + 1) for metric in METRICS
    }


def test_a_day_has_alarms_of_every_rule_and_quiet_windows_too() -> None:
    answers = truth(limited(Generator(1, 5, HOUR + 9 * 3_600_000), count=20_000))

    assert {alarm.rule for alarm in answers.alarms} == {"cpu-busy", "latency-peak"}
    assert len(answers.alarms) < len(answers.windows) / 10


def test_records_say_what_their_facts_say() -> None:
    for e in limited(Generator(2, 20, HOUR), count=2000):
        if e.fact is None:
            continue
        assert json.loads(e.value) == {
            "time": iso_of(e.fact.time_ms),
            "host": e.fact.host,
            "metric": e.fact.metric,
            "value": e.fact.value,
        }
        assert e.key.decode() == e.fact.host


def test_broken_records_are_broken_each_in_one_of_four_ways() -> None:
    ways = {_fault(e.value) for e in limited(Generator(3, 20, HOUR), count=20_000) if e.is_broken}

    assert ways == {"no JSON", "no host", "no value", "no time"}


def _fault(value: bytes) -> str:
    try:
        fields = json.loads(value)
    except ValueError:
        return "no JSON"
    if "host" not in fields:
        return "no host"
    if not isinstance(fields["value"], float):
        return "no value"
    return "no time" if fields["time"] is None else "none"
