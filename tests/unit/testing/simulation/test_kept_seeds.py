from __future__ import annotations

from pathlib import Path

from ottla.testing.history.history import History
from ottla.testing.simulation.kept_seeds import keep_seed, read_kept_seeds
from ottla.testing.simulation.plan import draw_plan
from ottla.testing.simulation.run import Outcome


def outcome(seed: int, *combinations: str) -> Outcome:
    return Outcome(draw_plan(seed), [], "", [], History(), [], {}, frozenset(combinations))


def test_a_seed_is_kept_for_what_none_before_it_had(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    assert read_kept_seeds(path) == {}
    assert keep_seed(path, outcome(1, "leads, behind", "follows")) == ["follows", "leads, behind"]
    assert keep_seed(path, outcome(2, "follows")) == []
    assert keep_seed(path, outcome(3, "follows", "leads")) == ["leads"]
    assert read_kept_seeds(path) == {"follows": 1, "leads, behind": 1, "leads": 3}
