"""Bugs of leaders and followers."""

from __future__ import annotations

from functools import partial

from ottla.replication.in_sync_replicas import InSyncReplicas
from ottla.replication.leader import Leader
from ottla.replication.partition import Partition
from ottla.replication.replica_fetcher import ReplicaFetcher
from ottla.replication.truncation import truncation_offset
from ottla.server.handlers import fetch
from tests.simulation import test_cluster_scenarios as scenarios
from tests.simulation import test_leader_changes as changes
from tests.simulation.mutants.mutant import Change, Mutant, playing, under
from tests.simulation.test_cluster_scenarios import play

REPLICATION: list[Mutant] = [
    Mutant(
        "committed_by_the_leader_alone",
        "The high watermark is the end of the leader's log.",
        (
            Change(
                InSyncReplicas.high_watermark,
                "for follower in self.followers.values():",
                "for follower in ():",
            ),
        ),
        under("kill_whoever_acknowledged"),
    ),
    Mutant(
        "acknowledged_at_the_leader",
        "acks=all is answered before a follower has the records.",
        (
            Change(
                Leader._settled,
                "(self._writing or (acks == ACKS_ALL and self._uncommitted.waiting))",
                "self._writing",
            ),
        ),
        under("kill_whoever_acknowledged"),
    ),
    Mutant(
        "repeat_acknowledged_early",
        "A repeat of what is not committed yet is acknowledged at once.",
        (
            Change(
                Leader._settled,
                "if not (self._writing or",
                "if appended.is_duplicate or not (self._writing or",
            ),
        ),
        playing(partial(play, scenarios.sent_again_to_a_zombie)),
    ),
    Mutant(
        "sent_counts_as_fetched",
        "What was sent to a follower counts as what it has.",
        (
            Change(
                Leader.follower_fetched,
                "            fetch_offset,\n",
                "            self.end_offset,\n",
            ),
        ),
        playing(changes.run_lagging),
    ),
    Mutant(
        "cut_at_the_high_watermark",
        "KIP-101: a follower begins by cutting its log at its high watermark.",
        (
            Change(
                Partition.follow,
                "self.follower = follower",
                "self.log.truncate_to(self.high_watermark); self.follower = follower",
            ),
        ),
        under("kill_and_start_at_once", "kill_whoever_acknowledged"),
    ),
    Mutant(
        "parted_logs_unseen",
        "KIP-101: a leader answers whatever is asked for, if it has that offset.",
        (
            Change(
                fetch._divergence,
                "    if epoch == NO_EPOCH:",
                "    if True:\n        return None\n    if epoch == NO_EPOCH:",
            ),
        ),
        under("isolate", "pause_whoever_acknowledged", "kill"),
        seed=1,
    ),
    Mutant(
        "epochs_of_the_leader_only",
        "KIP-279: a follower cuts where an epoch of the leader ends, which it may never have seen.",
        (Change(truncation_offset, "if own_end_offset < 0:", "if True:"),),
        playing(partial(changes.run, changes.leaders_that_nobody_followed)),
    ),
    Mutant(
        "joins_at_the_high_watermark",
        "KAFKA-7128: a follower joins the ISR with what a new leader knows to be committed.",
        (
            Change(
                InSyncReplicas.may_join,
                "max(high_watermark, self.epoch_start_offset)",
                "high_watermark",
            ),
        ),
        playing(changes.run_lagging),
    ),
    Mutant(
        "union_forgotten",
        "KIP-497: while AlterPartition is unanswered only the proposed set counts.",
        (
            Change(
                InSyncReplicas._counts,
                "broker_id in self.committed or (",
                "(self.proposal is None and broker_id in self.committed) or (",
            ),
        ),
        under("cut_between_brokers", "isolate", "kill_whoever_acknowledged"),
    ),
    Mutant(
        "leader_epoch_unchecked",
        "KIP-320: readers of another leader epoch are served.",
        (
            Change(
                Partition.check_leader_epoch,
                "if current_leader_epoch in (NO_EPOCH, self.leader_epoch):",
                "if True:",
            ),
        ),
        playing(partial(play, scenarios.reader_sent_to_a_zombie)),
    ),
    Mutant(
        "too_few_acknowledge",
        "min.insync.replicas is 1, whatever is set.",
        (
            Change(
                Leader._take_config,
                "self.log.config.min_insync_replicas, len(self.in_sync.followers) + 1",
                "1, 1",
            ),
        ),
        under("kill", "cut_between_brokers", "kill_whoever_acknowledged"),
        seed=15,
    ),
    Mutant(
        "fetches_under_the_old_registration",
        "KAFKA-2729: after a lost session a broker fetches as the one that it was.",
        (
            Change(
                ReplicaFetcher._begin_anew_if_registered_anew,
                "self._broker_epoch = broker_epoch",
                "self._broker_epoch = max(self._broker_epoch, 0) or broker_epoch",
            ),
        ),
        playing(partial(play, scenarios.sessions_lost_together)),
        seed=1,
    ),
]
