"""Bugs put into brokers and controllers of whole clusters, one at a time: the seeds must find each.

What they cannot find they do not guard. A mutation that no longer applies fails, too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from ottla.controller import unclean_recovery
from ottla.replication.in_sync_replicas import InSyncReplicas
from ottla.storage.producer_state import ProducerState
from ottla.testing.simulation.plan import draw_plan
from ottla.testing.simulation.run import run_plan

SEEDS_MAX = 40


class Mutant(NamedTuple):
    mutate: Callable[[pytest.MonkeyPatch], None]
    fault_kinds: tuple[str, ...]


def committed_by_the_leader_alone(patch: pytest.MonkeyPatch) -> None:
    """acks=all is answered when the leader has the records."""

    def high_watermark(self: InSyncReplicas, current: int, *, log_end_offset: int, **_: Any) -> int:
        return max(current, log_end_offset)

    assert hasattr(InSyncReplicas, "high_watermark")
    patch.setattr(InSyncReplicas, "high_watermark", high_watermark)


def producers_unknown_to_followers(patch: pytest.MonkeyPatch) -> None:
    """A follower does not take in the state of producers: as leader it appends what is there."""
    patch.setattr(ProducerState, "replay", lambda self, header, batch: None)


def unclean_brokers_stay_in_sync(patch: pytest.MonkeyPatch) -> None:
    """A broker whose power has failed counts as if it had everything."""

    async def do_nothing(*_: object) -> None:
        pass

    patch.setattr(unclean_recovery, "plan_loss_of_tails", do_nothing)


MUTANTS = [
    Mutant(committed_by_the_leader_alone, ("kill_whoever_acknowledged",)),
    Mutant(producers_unknown_to_followers, ("kill", "reset_connections")),
    Mutant(unclean_brokers_stay_in_sync, ("lose_power", "kill")),
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.mutate.__name__)
def test_it_is_found(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant.mutate(monkeypatch)
    for seed in range(SEEDS_MAX):
        outcome = run_plan(replace(draw_plan(seed), fault_kinds=mutant.fault_kinds))
        found = "\n".join(outcome.problems)
        if "TypeError" in found or "AttributeError" in found:
            pytest.fail(f"the mutation no longer fits the code: {found}")
        if found:
            print(f"found by the {seed + 1}. seed: {outcome.problems[0]}")
            return
    pytest.fail(f"none of {SEEDS_MAX} seeds has found it")
