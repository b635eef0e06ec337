"""What the activity pipeline has found out, put together from the records of its topics."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, NamedTuple, TypeVar

TRAFFIC, SESSIONS, TOP = TOPICS = ("activity-traffic", "activity-sessions", "activity-top")

MINUTES_MAX = 240
LONGEST_MINUTES = 15
"""Sessions of so many minutes and more are counted together."""
_DAYS_MAX = 3

Value = TypeVar("Value")


class Traffic(NamedTuple):
    page_views: int
    visitors: int


@dataclass(slots=True)
class Results:
    """The newest of them. Written by one thread and read by the view: each field is replaced, or
    grows, in one step of the interpreter, and a number that is a moment old does no harm there."""

    minutes: dict[str, Traffic] = field(default_factory=dict)
    """By when they begin, ISO 8601."""
    days: dict[str, Traffic] = field(default_factory=dict)
    sessions: int = 0
    session_s: float = 0.0
    """Of all of them together, as the next."""
    session_actions: int = 0
    session_minutes: Counter[int] = field(default_factory=Counter)
    """How many sessions were so many whole minutes long."""
    top: dict[str, dict[str, list[tuple[str, int]]]] = field(default_factory=dict)
    """By kind and day."""
    passed_over: int = 0
    """Records that are no results: anybody may write to a demo's topics."""

    def take(self, topic: str, value: Any) -> None:
        try:
            if topic == TRAFFIC:
                self._take_traffic(value)
            elif topic == SESSIONS:
                self._take_session(value)
            else:
                self._take_top(value)
        except (ValueError, LookupError, TypeError):
            self.passed_over += 1

    def take_record(self, topic: str, record: bytes) -> None:
        try:
            value = json.loads(record)
        except ValueError:
            self.passed_over += 1
        else:
            self.take(topic, value)

    def _take_traffic(self, value: Any) -> None:
        counted = Traffic(_count(value["page_views"]), _count(value["visitors"]))
        start = value["start"]
        _moment(start)  # as all that read it take for granted
        if value["window"] == "minute":
            _put(self.minutes, start, counted, MINUTES_MAX)
        else:
            _put(self.days, start, counted, _DAYS_MAX)

    def _take_session(self, value: Any) -> None:
        length_s = (_moment(value["end"]) - _moment(value["start"])).total_seconds()
        actions = _count(value["actions"])
        self.sessions += 1
        self.session_s += length_s
        self.session_actions += actions
        self.session_minutes[min(LONGEST_MINUTES, int(length_s // 60))] += 1

    def _take_top(self, value: Any) -> None:
        ranking = [(str(place["subject"]), _count(place["count"])) for place in value["top"]]
        day = value["day"]
        date.fromisoformat(day)
        _put(self.top.setdefault(value["kind"], {}), day, ranking, _DAYS_MAX)

    def in_order(self) -> list[tuple[str, Traffic]]:
        """Minutes, the oldest first."""
        return sorted(self.minutes.copy().items())

    def newest_day(self) -> Traffic | None:
        days = self.days.copy()
        return days[max(days)] if days else None

    def ranking(self, kind: str) -> list[tuple[str, int]]:
        """Of the newest day."""
        days = self.top.get(kind, {}).copy()
        return days[max(days)] if days else []


def _put(kept: dict[str, Value], time: str, value: Value, count_max: int) -> None:
    kept[time] = value
    if len(kept) > count_max:
        del kept[min(kept)]


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} has no zone")
    return moment


def _count(value: object) -> int:
    if not isinstance(value, int):
        raise ValueError(f"{value!r} is no number")
    return value
