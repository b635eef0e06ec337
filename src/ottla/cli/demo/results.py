"""What the activity pipeline has found out, as its topics tell it."""

from __future__ import annotations

import json
import threading
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from ottla.cli.client import Cluster

TRAFFIC, SESSIONS, TOP = TOPICS = ("activity-traffic", "activity-sessions", "activity-top")


class Traffic(NamedTuple):
    page_views: int
    visitors: int


@dataclass(slots=True)
class Results:
    """Written by one thread and read by the view: each field is replaced, or grows, in one step of
    the interpreter, and a number that is a moment old does no harm there."""

    minutes: dict[str, Traffic] = field(default_factory=dict)
    """By when they begin, ISO 8601."""
    days: dict[str, Traffic] = field(default_factory=dict)
    sessions: int = 0
    session_s: float = 0.0
    """Of all of them together, as the next."""
    session_actions: int = 0
    session_minutes: Counter[int] = field(default_factory=Counter)
    """How many sessions were so many whole minutes long."""
    top: dict[tuple[str, str], list[tuple[str, int]]] = field(default_factory=dict)
    """By kind and day."""

    def take(self, topic: str, value: dict[str, Any]) -> None:
        if topic == TRAFFIC:
            windows = self.minutes if value["window"] == "minute" else self.days
            windows[value["start"]] = Traffic(value["page_views"], value["visitors"])
        elif topic == SESSIONS:
            length_s = (_moment(value["end"]) - _moment(value["start"])).total_seconds()
            self.sessions += 1
            self.session_s += length_s
            self.session_actions += value["actions"]
            self.session_minutes[int(length_s // 60)] += 1
        else:
            ranking = [(place["subject"], place["count"]) for place in value["top"]]
            self.top[value["kind"], value["day"]] = ranking

    def in_order(self) -> list[tuple[str, Traffic]]:
        """Minutes, the oldest first."""
        return sorted(self.minutes.copy().items())

    def newest_day(self) -> Traffic | None:
        days = self.days.copy()
        return days[max(days)] if days else None

    def ranking(self, kind: str) -> list[tuple[str, int]]:
        """Of the newest day."""
        days = [day for known, day in self.top.copy() if known == kind]
        return self.top[kind, max(days)] if days else []


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


class ResultsReader:
    """One thread, from `start` to `stop`. Owned by the demo. The topics have one partition each."""

    def __init__(self, cluster: Cluster) -> None:
        self.results = Results()
        self._consumer: Consumer = cluster.consumer(
            {"isolation.level": "read_committed", "fetch.wait.max.ms": 100}
        )
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._read, name="demo-results", daemon=True)

    def start(self) -> None:
        self._consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING) for topic in TOPICS])
        self._thread.start()

    def stop(self) -> None:
        self._is_stopping.set()
        self._thread.join()
        self._consumer.close()

    def _read(self) -> None:
        while not self._is_stopping.is_set():
            for message in self._consumer.consume(500, timeout=0.1):
                topic, value = message.topic(), message.value()
                if message.error() is None and topic is not None and value is not None:
                    self.results.take(topic, json.loads(value))
