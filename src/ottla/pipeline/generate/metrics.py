"""Metrics of hosts, and what the metrics pipeline must say of them.
docs/pipelines/metrics.md has the schema and the definitions."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from random import Random
from typing import Literal, NamedTuple

from ottla.pipeline.generate.chance import below
from ottla.pipeline.generate.event import Event, arrival_of, in_arrival_order
from ottla.pipeline.generate.rhythm import MINUTE_MS, SECOND_MS, Rhythm, busyness
from ottla.pipeline.generate.times import iso_of

CPU, MEMORY, LATENCY = METRICS = ("cpu_percent", "memory_percent", "latency_ms")
HOSTS = 20
WINDOWS_S = (10, 60, 3600)

_TROUBLE_BLOCK_MS = 10 * MINUTE_MS
_TROUBLE_SHARE = 0.05
_BROKEN_SHARE = 0.01


@dataclass(frozen=True, slots=True)
class Sample:
    time_ms: int
    host: str
    metric: str
    value: float


class Generator:
    """Makes the same events for the same seed, rate and start; iterating again starts anew."""

    def __init__(self, seed: int, rate: float, start_ms: int) -> None:
        self._seed = f"metrics {seed}"
        self._rate = rate
        self._start_ms = start_ms

    def __iter__(self) -> Iterator[Event[Sample]]:
        """In the order of arrival, without end."""
        return in_arrival_order(self._by_event_time())

    def _by_event_time(self) -> Iterator[Event[Sample]]:
        random = Random(self._seed)
        block, in_trouble = -1, frozenset[int]()
        for time_ms in Rhythm(self._seed, self._rate, self._start_ms).times():
            if time_ms // _TROUBLE_BLOCK_MS != block:
                block = time_ms // _TROUBLE_BLOCK_MS
                in_trouble = self._in_trouble(block)
            number = below(HOSTS, random)
            metric = METRICS[below(len(METRICS), random)]
            load = busyness(time_ms) * (1.8 if number in in_trouble else 1.0)
            value = _value(metric, load, random)
            yield _event(Sample(time_ms, f"host-{number + 1}", metric, value), random)

    def _in_trouble(self, block: int) -> frozenset[int]:
        random = Random(f"{self._seed} trouble {block}")
        return frozenset(number for number in range(HOSTS) if random.random() < _TROUBLE_SHARE)


def _value(metric: str, load: float, random: Random) -> float:
    chance = random.random()
    if metric == CPU:
        value = min(100.0, 40 * load + 20 * chance)
    elif metric == MEMORY:
        value = min(100.0, 50 + 10 * load + 5 * chance)
    else:
        # A long tail, as latencies have it: half below 10 ms times load, one in 100 above 400.
        value = 5 * load / (1 - 0.999 * chance)
    # Thousandths, so that the text is short and its float the same everywhere.
    return int(value * 1000) / 1000


def _event(sample: Sample, random: Random) -> Event[Sample]:
    is_broken = random.random() < _BROKEN_SHARE
    fields: dict[str, object] = {
        "time": iso_of(sample.time_ms),
        "host": sample.host,
        "metric": sample.metric,
        "value": sample.value,
    }
    return Event(
        event_time_ms=sample.time_ms,
        arrival_ms=arrival_of(sample.time_ms, random),
        key=sample.host.encode(),
        value=_broken(fields, random) if is_broken else _encoded(fields),
        fact=None if is_broken else sample,
    )


def _encoded(fields: Mapping[str, object]) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode()


def _broken(fields: dict[str, object], random: Random) -> bytes:
    """Each way in which a record must be refused."""
    way = below(4, random)
    if way == 0:
        return _encoded(fields)[:-2]
    if way == 1:
        return _encoded({name: field for name, field in fields.items() if name != "host"})
    if way == 2:
        return _encoded({**fields, "value": "n/a"})
    return _encoded({**fields, "time": None})


class WindowKey(NamedTuple):
    start_ms: int
    window_s: int
    host: str
    metric: str


@dataclass(frozen=True, slots=True)
class Window:
    """What one window of one metric of one host holds."""

    count: int
    min: float
    max: float
    mean: float
    p50: float
    """The smallest value that half of the values do not exceed: exact, to judge a sketch by."""
    p99: float


@dataclass(frozen=True, slots=True)
class Rule:
    """Raises an alarm for each window whose aggregate is above the threshold."""

    name: str
    metric: str
    aggregate: Literal["count", "min", "max", "mean"]
    """No percentile: those of a sketch are near the truth only."""
    above: float
    window_s: int


class Alarm(NamedTuple):
    start_ms: int
    rule: str
    host: str
    value: float


RULES = (
    Rule("cpu-busy", CPU, "mean", 80.0, 60),
    Rule("latency-peak", LATENCY, "max", 2000.0, 10),
)


@dataclass(frozen=True, slots=True)
class Truth:
    """The exact answers. Windows are named by their first millisecond."""

    windows: Mapping[WindowKey, Window]
    alarms: list[Alarm]
    broken: int


def truth(events: Iterable[Event[Sample]], rules: Sequence[Rule] = RULES) -> Truth:
    values: defaultdict[WindowKey, list[float]] = defaultdict(list)
    broken = 0
    for event in events:
        sample = event.fact
        if sample is None:
            broken += 1
            continue
        for window_s in WINDOWS_S:
            start_ms = sample.time_ms - sample.time_ms % (window_s * SECOND_MS)
            values[WindowKey(start_ms, window_s, sample.host, sample.metric)].append(sample.value)
    windows = {key: window_of(values[key]) for key in sorted(values)}
    return Truth(windows=windows, alarms=alarms_of(windows, rules), broken=broken)


def window_of(values: Iterable[float]) -> Window:
    ordered = sorted(values)
    count = len(ordered)
    return Window(
        count=count,
        min=ordered[0],
        max=ordered[-1],
        # fsum rounds once: the mean is the same in whatever order the values came.
        mean=fsum(ordered) / count,
        p50=_percentile(ordered, 50),
        p99=_percentile(ordered, 99),
    )


def _percentile(ordered: Sequence[float], percent: int) -> float:
    rank = -(-len(ordered) * percent // 100)
    return ordered[rank - 1]


def alarms_of(windows: Mapping[WindowKey, Window], rules: Sequence[Rule]) -> list[Alarm]:
    alarms = []
    for key, window in windows.items():
        for rule in rules:
            if (key.window_s, key.metric) != (rule.window_s, rule.metric):
                continue
            value = float(getattr(window, rule.aggregate))
            if value > rule.above:
                alarms.append(Alarm(key.start_ms, rule.name, key.host, value))
    return sorted(alarms)
