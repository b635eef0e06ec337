"""Members of groups that are Apache Kafka's own consumers, all in one JVM."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass

from tests.support.asked_program import PROGRAMS, AskedProgram
from tools.apache_kafka import java_command

Event = tuple[str, list[str]]


@dataclass(frozen=True, slots=True)
class Shown:
    """What a member has seen so far. Partitions are `TOPIC-NUMBER`, sorted."""

    owned: list[str]
    events: list[Event]
    """What its listener was told: assigned, revoked or lost, and which."""
    values: list[str]
    """Of records, since the last seek."""
    commits: list[str]
    """That are done: sync, async, or an error."""
    poll_max: int
    """The most records that one poll returned."""
    error: str
    """The exception that ended it, by its simple name."""


class JavaMember:
    def __init__(self, members: JavaMembers, name: str) -> None:
        self._members = members
        self.name = name

    def show(self) -> Shown:
        (shown,) = self._members.ask("show", self.name)
        found = json.loads(shown)
        found["events"] = [(kind, partitions) for kind, partitions in found["events"]]
        return Shown(**found)

    def commit(self, how: str) -> None:
        self._members.ask("commit", self.name, how)

    def seek(self, timestamp_ms: int) -> None:
        self._members.ask("seek", self.name, str(timestamp_ms))

    def close(self) -> None:
        """It leaves its group, unless it is a static member."""
        self._members.ask("close", self.name)
        self._members.open.remove(self)


class JavaMembers(AskedProgram):
    """Settings have underscores for dots. Names of clients, and so the ids of members, sort as
    they were made."""

    def __init__(self) -> None:
        options = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        super().__init__(java_command(str(PROGRAMS / "GroupMembers.java"), options=options))
        self.open: list[JavaMember] = []
        self._numbers = itertools.count()

    def subscribe(self, bootstrap: str, group: str, topics: str, **settings: str) -> JavaMember:
        """`topics` is `a,b`, or a pattern: `^...` that Java's client looks for, `~...` for the
        broker."""
        settings = {"group_id": group, "heartbeat_interval_ms": "300", **settings}
        if settings.get("group_protocol") == "consumer":
            del settings["heartbeat_interval_ms"]
        return self._make("subscribe", bootstrap, topics, settings)

    def assign(self, bootstrap: str, topic: str, **settings: str) -> JavaMember:
        return self._make("assign", bootstrap, topic, settings)

    def _make(self, kind: str, bootstrap: str, topics: str, settings: dict[str, str]) -> JavaMember:
        name = f"member-{next(self._numbers):03}"
        settings = {"bootstrap_servers": bootstrap, **settings}
        pairs = [f"{key.replace('_', '.')}={value}" for key, value in settings.items()]
        self.ask(kind, name, topics, *pairs)
        member = JavaMember(self, name)
        self.open.append(member)
        return member
