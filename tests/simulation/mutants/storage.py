"""Bugs of logs, and of what they know about their producers."""

from __future__ import annotations

from functools import partial

from ottla.replication.partition import Partition
from ottla.storage.log import Log
from ottla.storage.producer_state import ProducerState
from tests.simulation import test_cluster_scenarios as scenarios
from tests.simulation import test_past_transaction_bugs as past
from tests.simulation.mutants.mutant import Change, Mutant, playing, under
from tests.simulation.test_cluster_scenarios import play

assert isinstance(Partition.last_stable_offset, property)
LAST_STABLE_OFFSET = Partition.last_stable_offset.fget
assert LAST_STABLE_OFFSET is not None

STORAGE: list[Mutant] = [
    Mutant(
        "producers_unknown_to_followers",
        "A follower does not take in the state of producers: as leader it appends what is there.",
        (Change(Log._take_in_replicated, "if header.producer_id >= 0:", "if False:"),),
        under("kill", "reset_connections"),
    ),
    Mutant(
        "aborts_unknown_to_followers",
        "Jepsen's aborted read: who has followed does not know what was aborted.",
        (
            Change(
                Log._take_in_replicated,
                "self._note_ended(self.producer_state.replay(header, buffer[position:end]))",
                "self.producer_state.replay(header, buffer[position:end])",
            ),
        ),
        under("kill", "isolate"),
    ),
    Mutant(
        "producers_outlive_truncation",
        "A repeat of what was cut off is acknowledged, and is not there.",
        (
            Change(
                Log.truncate_to,
                'self._guard("truncating", lambda: self._reload_producers(offset))',
                "pass",
            ),
        ),
        playing(partial(play, scenarios.sent_again_to_a_zombie)),
    ),
    Mutant(
        "open_transactions_read",
        "read_committed ends at the high watermark.",
        (Change(LAST_STABLE_OFFSET, "if first_unstable_offset is None", "if True"),),
        under("kill"),
    ),
    Mutant(
        "old_markers_taken",
        "A marker of an old epoch, or of a coordinator that was replaced, ends the transaction "
        "that is open by now.",
        (Change(ProducerState.check_marker, "if entry is None:", "if True:"),),
        playing(lambda _: past.test_a_late_marker_does_not_end_the_next_transaction()),
    ),
]
