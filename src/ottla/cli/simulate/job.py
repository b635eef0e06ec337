"""What a child process is asked to run, and what it answers: a line of JSON each."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from ottla.testing.simulation.entry import Entry, Mark


class Job(NamedTuple):
    seed: int
    faults: tuple[str, ...] | None = None
    """The names of those that take place. None: all that the seed draws."""
    shrinks: bool = False
    """Asks for the fewest faults with which the seed still fails."""
    is_traced: bool = False

    def to_json(self) -> str:
        return json.dumps(self._asdict())

    @classmethod
    def from_json(cls, line: str) -> Job:
        return cls.from_fields(json.loads(line))

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> Job:
        faults = fields["faults"]
        return cls(**fields | {"faults": None if faults is None else tuple(faults)})


class Result(NamedTuple):
    job: Job
    problems: list[str]
    digest: str
    """Of the trace. The same seed, faults and code have the same, in every process."""
    faults: list[str]
    """Those that took place. If the job shrinks, those that are left."""
    exercised: dict[str, int]
    run_count: int
    is_minimal: bool
    """It was shrunk, and none of the faults that are left can be left out."""
    entries: list[Entry]
    """If the job is traced."""

    def to_json(self) -> str:
        return json.dumps(self._asdict() | {"job": self.job._asdict()})

    @classmethod
    def from_json(cls, line: str) -> Result:
        fields = json.loads(line)
        entries = [Entry(each[0], each[1], Mark(each[2]), each[3]) for each in fields["entries"]]
        return cls(**fields | {"job": Job.from_fields(fields["job"]), "entries": entries})
