"""A history: the events of all clients, in the order in which they were told.

It grows in memory, from several threads if need be, and can be kept as JSON lines, so that a run
that failed can be looked at, and checked again, without running it again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, get_args

from ottla.kernel.ids import TopicPartition
from ottla.testing.history.events import Event, Outcome, PolledRecord, Source

_TYPES: dict[str, type] = {kind.__name__: kind for kind in get_args(Event)}


class History(Sequence[Event]):
    """Owned by a test. An event's index is its place in time."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self._events = list(events)

    def add(self, event: Event) -> None:
        self._events.append(event)  # One step of the interpreter: threads need no lock.

    @property
    def now(self) -> int:
        """All events below this have happened."""
        return len(self._events)

    def __len__(self) -> int:
        return len(self._events)

    def __getitem__(self, index: Any) -> Any:
        return self._events[index]

    def __iter__(self) -> Iterator[Event]:
        return iter(self._events)

    def to_json_lines(self) -> str:
        return "".join(
            json.dumps({"event": type(event).__name__} | _plain(event)) + "\n" for event in self
        )

    @classmethod
    def from_json_lines(cls, text: str) -> History:
        return cls(_event(json.loads(line)) for line in text.splitlines())


def _plain(event: Event) -> dict[str, Any]:
    fields: dict[str, Any] = event._asdict()
    for name in ("offsets", "positions"):
        if name in fields:
            fields[name] = [[*partition, offset] for partition, offset in fields[name].items()]
    if "records" in fields:
        fields["records"] = [
            [*record.partition, record.offset, record.value] for record in fields["records"]
        ]
    if (source := fields.get("source")) is not None:
        fields["source"] = [source.group, *source.partition, source.offset]
    return fields


def _event(fields: dict[str, Any]) -> Event:
    kind = _TYPES[fields.pop("event")]
    for name, read in _READERS.items():
        if fields.get(name) is not None:
            fields[name] = read(fields[name])
    event: Event = kind(**fields)
    return event


def _offsets(rows: list[list[Any]]) -> dict[TopicPartition, int]:
    return {TopicPartition(topic, number): offset for topic, number, offset in rows}


def _records(rows: list[list[Any]]) -> tuple[PolledRecord, ...]:
    return tuple(
        PolledRecord(TopicPartition(topic, number), offset, value)
        for topic, number, offset, value in rows
    )


def _source(row: list[Any]) -> Source:
    group, topic, number, offset = row
    return Source(group, TopicPartition(topic, number), offset)


_READERS: dict[str, Callable[[Any], Any]] = {
    "partition": lambda row: TopicPartition(*row),
    "offsets": _offsets,
    "positions": _offsets,
    "records": _records,
    "source": _source,
    "outcome": Outcome,
}
