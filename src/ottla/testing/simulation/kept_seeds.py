"""Seeds that are worth running again: each was the first to bring a partition into a state that
none before it had reached (`observer.py` says which states those are)."""

from __future__ import annotations

from pathlib import Path

from ottla.testing.simulation.run import Outcome


def read_kept_seeds(path: Path) -> dict[str, int]:
    """By state, in the order in which they were found. A line has a seed and a state."""
    lines = path.read_text().splitlines() if path.exists() else []
    kept = {}
    for line in lines:
        seed, _, combination = line.partition(" ")
        kept[combination] = int(seed)
    return kept


def keep_seed(path: Path, outcome: Outcome) -> list[str]:
    """Returns what is new in it."""
    known = read_kept_seeds(path)
    new = sorted(outcome.combinations - known.keys())
    if new:
        with path.open("a") as file:
            file.writelines(f"{outcome.plan.seed} {combination}\n" for combination in new)
    return new
