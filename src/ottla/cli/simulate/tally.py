"""What has come of the seeds so far."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from ottla.cli.simulate.job import Result
from ottla.cli.simulate.replay import replay_command
from ottla.cli.tables import Column, Rows

COLUMNS = (Column("EXERCISED"), Column("COUNT", is_number=True), Column("SEEDS", is_number=True))


class FailedSeed(NamedTuple):
    result: Result
    shrunk: Result | None
    """None if it was not shrunk, or not yet."""

    @property
    def replay(self) -> str:
        """The command that shows it again."""
        job = self.result.job
        return replay_command(job.seed, self.shrunk.faults if self.shrunk else job.faults)


class Tally:
    """Owned by the command."""

    def __init__(self) -> None:
        self.seed_count = 0
        self.failed: dict[int, FailedSeed] = {}
        self.counts: Counter[str] = Counter()
        self.seeds_with: Counter[str] = Counter()
        """In how many seeds it happened."""

    def add(self, result: Result) -> None:
        if result.job.shrinks:
            self.failed[result.job.seed] = self.failed[result.job.seed]._replace(shrunk=result)
            return
        self.seed_count += 1
        for name, count in result.exercised.items():
            self.counts[name] += count
            self.seeds_with[name] += count > 0
        if result.problems:
            self.failed[result.job.seed] = FailedSeed(result, None)

    def rows(self) -> Rows:
        """What never happened is said, too."""
        return [
            (name, f"{count:,}" if count else "none", f"{self.seeds_with[name]:,}")
            for name, count in self.counts.items()
        ]

    def fields(self, seconds: float) -> dict[str, object]:
        """For programs."""
        return {
            "seeds": self.seed_count,
            "seconds": round(seconds, 1),
            "failed": [_fields_of(each) for _, each in sorted(self.failed.items())],
            "exercised": {
                name: {"count": count, "seeds": self.seeds_with[name]}
                for name, count in self.counts.items()
            },
        }


def failure_text(failed: FailedSeed) -> str:
    """What went wrong in a seed, and how to see it again."""
    result, shrunk = failed.result, failed.shrunk
    shown = result if shrunk is None else shrunk
    first, *others = shown.problems
    more = f" (and {len(others)} more)" if others else ""
    lines = [f"seed {result.job.seed} failed{more}: {first.strip()}".replace("\n", "\n  ")]
    if shrunk is not None:
        fewest = "the fewest" if shrunk.is_minimal else "fewer may do"
        lines.append(
            f"  faults: {len(shrunk.faults)} of {len(result.faults)}, {fewest} that still fail; "
            f"{shrunk.run_count} runs to find them"
        )
    return "\n".join([*lines, f"  trace hash: {shown.digest}", f"  replay it: {failed.replay}"])


def _fields_of(failed: FailedSeed) -> dict[str, object]:
    shown = failed.shrunk or failed.result
    return {
        "seed": failed.result.job.seed,
        "problems": shown.problems,
        "faults": shown.faults,
        "hash": shown.digest,
        "replay": failed.replay,
    }
