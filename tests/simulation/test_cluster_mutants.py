"""Bugs put into brokers and controllers, one at a time: each must be found, within a bounded number
of seeds. What is not found is not guarded.

Here is what they are found by: whole clusters under the faults that aim at them, or a scenario. In
`./test` the seed that found one last is tried first; in `./test --full` they are searched from
seed 0, and the test prints how many it took. `README.md` has the numbers.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tests.simulation import test_cluster_scenarios as scenarios
from tests.simulation import test_leader_changes as changes
from tests.simulation import test_transaction_scenarios as transactions
from tests.simulation.mutants.controllers import CONTROLLERS
from tests.simulation.mutants.coordinators import COORDINATORS
from tests.simulation.mutants.mutant import Mutant, Run, change, playing
from tests.simulation.mutants.replication import REPLICATION
from tests.simulation.mutants.storage import STORAGE
from tests.simulation.test_cluster_scenarios import play
from tests.support.counts import IS_FULL

SEEDS_MAX = 60
MUTANTS = {each.name: each for each in (*REPLICATION, *CONTROLLERS, *COORDINATORS, *STORAGE)}


def problem(run: Run, seed: int) -> str:
    """What a seed finds, or nothing."""
    found = "\n".join(run(seed))
    if any(error in found for error in ("TypeError", "AttributeError", "NameError")):
        pytest.fail(f"the mutation no longer fits the code: {found}")
    return found


def search(run: Run, seeds_max: int, *, first: int | None = None) -> tuple[int, str]:
    """The seed that finds something, and what. Fails where none does."""
    seeds = range(seeds_max) if first is None else (first, *range(seeds_max))
    for seed in seeds:
        if found := problem(run, seed):
            return seed, found
    pytest.fail(f"none of {seeds_max} seeds has found it")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=lambda mutant: mutant.name)
def test_it_is_found(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant.apply(monkeypatch)
    seed, found = search(mutant.run, SEEDS_MAX, first=None if IS_FULL else mutant.seed)
    print(f"{mutant.name} is found by seed {seed} (so far: {mutant.seed}): {found}")


def test_there_are_enough_and_all_are_told_of() -> None:
    assert len(MUTANTS) >= 25
    told = (Path(__file__).parent / "README.md").read_text()
    assert [name for name in MUTANTS if f"| `{name}` |" not in told] == []


@pytest.mark.parametrize(
    ("was", "count"), [("what is not there", 0), ("seed", 2)], ids=["gone", "ambiguous"]
)
def test_a_mutant_that_no_longer_applies_fails(
    was: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def function(seed: int) -> int:
        return seed

    with pytest.raises(AssertionError, match=f"{count} times: the patch does not fit"):
        change(monkeypatch, function, was, "anything")
    assert function(1) == 1


# -- scenarios without what guards them ---------------------------------------------------------

GUARDS = [
    # Of scenarios that no mutant is found by above. `stale_controller` has two guards, its lost
    # session and its epoch: `deposed_controller` is about the one alone.
    ("acknowledged_at_the_leader", playing(partial(play, scenarios.zombie_leader))),
    ("loss_of_power_unnoticed", playing(partial(play, scenarios.last_replica_standing))),
    ("cut_at_the_high_watermark", playing(partial(changes.run, changes.restarted_follower))),
    (
        "answered_before_committed",
        playing(partial(transactions.play, transactions.write_loss)),
    ),
    (
        "aborts_unknown_to_followers",
        playing(partial(transactions.play, transactions.aborted_read)),
    ),
    (
        "markers_not_resumed",
        playing(partial(transactions.play, transactions.committed_and_left_alone)),
    ),
]


@pytest.mark.parametrize(("name", "run"), GUARDS, ids=[name for name, _ in GUARDS])
def test_a_scenario_fails_without_its_guard(
    name: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    MUTANTS[name].apply(monkeypatch)
    search(run, SEEDS_MAX)
