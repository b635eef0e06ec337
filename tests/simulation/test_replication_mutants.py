"""Past bugs of replication, put back one at a time: the seeds must find each of them.

What they cannot find they do not guard. A mutation that no longer applies fails, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from ottla.kernel.ids import BrokerId
from ottla.replication import follower
from ottla.replication.follower import Follower
from ottla.replication.in_sync_replicas import InSyncReplicas
from ottla.replication.partition import Partition
from ottla.server.handlers import fetch
from ottla.storage.log import Log
from ottla.storage.producer_state import ProducerState
from tests.simulation import test_leader_changes, test_replication

SEEDS_MAX = 100

LOST = "was acknowledged as|was read as|has two values|OUT_OF_ORDER"


class Mutant(NamedTuple):
    mutate: Callable[[pytest.MonkeyPatch], None]
    run: Callable[[int], object]
    seen_as: str
    """What the failure says: it is to be found as itself."""


def cut_at_the_high_watermark(patch: pytest.MonkeyPatch) -> None:
    """KIP-101: a follower began by cutting its log there."""
    follow = Partition.follow

    def follow_from_the_high_watermark(self: Partition, follower: Follower) -> None:
        self.log.truncate_to(self.high_watermark)
        follow(self, follower)

    patch.setattr(Partition, "follow", follow_from_the_high_watermark)


def parted_logs_unseen(patch: pytest.MonkeyPatch) -> None:
    """KIP-101: a leader answered whatever was asked for, if it had that offset."""
    patch.setattr(fetch, "_divergence", lambda *_: None)


def epochs_of_the_leader_only(patch: pytest.MonkeyPatch) -> None:
    """KIP-279: a follower cut where the leader's epoch ends, though it had never seen that one."""

    def truncation_offset(log: Log, leader_epoch: int, leader_end_offset: int) -> int:
        return min(leader_end_offset, log.log_end_offset)

    patch.setattr(follower, "truncation_offset", truncation_offset)


def joins_at_the_high_watermark(patch: pytest.MonkeyPatch) -> None:
    """KAFKA-7128: a follower joined the ISR at the high watermark of a leader that was new."""
    init = InSyncReplicas.__init__

    def forget_epoch_start(self: InSyncReplicas, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        self.epoch_start_offset = 0

    patch.setattr(InSyncReplicas, "__init__", forget_epoch_start)


def committed_by_the_leader_alone(patch: pytest.MonkeyPatch) -> None:
    """acks=all is answered when the leader has the records."""

    def high_watermark(self: InSyncReplicas, current: int, *, log_end_offset: int, **_: Any) -> int:
        return max(current, log_end_offset)

    patch.setattr(InSyncReplicas, "high_watermark", high_watermark)


def proposal_not_counted(patch: pytest.MonkeyPatch) -> None:
    """KIP-497: while AlterPartition was unanswered the high watermark waited for the old set
    only."""

    def counts(self: InSyncReplicas, broker_id: BrokerId) -> bool:
        return broker_id in (self.committed if self.proposal is None else self.proposal.isr)

    patch.setattr(InSyncReplicas, "_counts", counts)


def producers_unknown_to_followers(patch: pytest.MonkeyPatch) -> None:
    """A follower did not take in the state of producers: as leader it appended what was there."""
    patch.setattr(ProducerState, "replay", lambda self, header, batch: None)


MUTANTS = [
    Mutant(
        cut_at_the_high_watermark,
        lambda seed: test_leader_changes.run(test_leader_changes.restarted_follower, seed),
        "acknowledged record is lost",
    ),
    Mutant(
        parted_logs_unseen,
        lambda seed: test_leader_changes.run(test_leader_changes.power_lost_everywhere, seed),
        "does not come about",
    ),
    Mutant(
        epochs_of_the_leader_only,
        lambda seed: test_leader_changes.run(
            test_leader_changes.leaders_that_nobody_followed, seed
        ),
        "does not come about",
    ),
    Mutant(
        joins_at_the_high_watermark,
        test_leader_changes.run_lagging,
        "acknowledged records are lost",
    ),
    Mutant(committed_by_the_leader_alone, test_replication.run_seed, LOST),
    Mutant(proposal_not_counted, test_replication.run_seed, LOST),
    Mutant(
        producers_unknown_to_followers,
        test_replication.run_seed,
        "is there twice|OUT_OF_ORDER|UNKNOWN_PRODUCER",
    ),
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.mutate.__name__)
def test_it_is_found(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant.mutate(monkeypatch)
    for seed in range(SEEDS_MAX):
        try:
            mutant.run(seed)
        except (AssertionError, pytest.fail.Exception) as error:
            if re.search(mutant.seen_as, str(error)):
                print(f"found by the {seed + 1}. seed")
                return
            if re.search("TypeError|AttributeError|NameError", str(error)):
                pytest.fail(f"the mutation no longer fits the code: {error}")
    pytest.fail(f"none of {SEEDS_MAX} seeds has found it")
