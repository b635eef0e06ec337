"""Bugs of the coordinators of groups and of transactions."""

from __future__ import annotations

from functools import partial

from ottla.coordinators.groups.group_shard import GroupShard
from ottla.coordinators.runtime import Runtime
from ottla.coordinators.shard import Shard
from ottla.coordinators.transactions import transaction_shard
from ottla.coordinators.transactions.transaction import Transaction
from ottla.coordinators.transactions.transaction_shard import TransactionShard
from ottla.server import transaction_markers
from ottla.server.handlers import offset_fetch
from ottla.server.transaction_markers import TransactionMarkerWriter
from ottla.server.transactional_produce import TransactionalProduce
from tests.simulation import test_cluster_scenarios as scenarios
from tests.simulation import test_transaction_scenarios as transactions
from tests.simulation.mutants.mutant import Change, Mutant, playing, under
from tests.simulation.test_cluster_scenarios import play

COORDINATORS: list[Mutant] = [
    Mutant(
        "answered_before_committed",
        "A coordinator answers when its records have a place in its own log.",
        (
            Change(
                Shard.write,
                "            await self._committed(timeout_ms)\n        return answer",
                "            pass\n        return answer",
            ),
        ),
        under("kill", "isolate", "kill_whoever_acknowledged"),
        seed=2,
    ),
    Mutant(
        "loaded_to_the_high_watermark",
        "A coordinator that takes over loads what its broker knows to be committed.",
        (
            Change(
                Shard._replay_log,
                "                self._replayed_to = header.next_offset\n",
                "                if header.next_offset > self.leader.partition.high_watermark:\n"
                "                    break\n"
                "                self._replayed_to = header.next_offset\n",
            ),
        ),
        under("kill_all"),
    ),
    Mutant(
        "served_from_a_lost_leadership",
        "A coordinator that was replaced tells offsets, and does not know it.",
        (
            Change(
                Runtime.read_as_leader,
                "await check_leadership(shard.leader, self._clock, self._answer_timeout_ms)",
                "pass",
            ),
        ),
        playing(partial(play, scenarios.coordinator_isolated)),
    ),
    Mutant(
        "offsets_before_the_marker",
        "Offsets of a transaction count before it is committed.",
        (
            Change(
                GroupShard.replay,
                "if producer_id == NO_PRODUCER_ID or value is None:",
                "if True:",
            ),
        ),
        under("kill"),
    ),
    Mutant(
        "unstable_offsets_told",
        "KIP-447: who asks for stable offsets is not told to wait for an open transaction.",
        (Change(offset_fetch._fetch, "if require_stable and seen.unstable:", "if False:"),),
        playing(partial(transactions.play, transactions.offsets_before_their_marker)),
        seed=1,
    ),
    Mutant(
        "markers_at_append",
        "A marker counts as written when it is in the leader's log.",
        (
            Change(TransactionMarkerWriter.settle, "if waiting:", "if False:"),
            Change(
                transaction_markers._outcome,
                "if begun.cancelled() or not begun.done():",
                "if not begun.done():\n        return ErrorCode.NONE\n    if begun.cancelled():",
            ),
        ),
        under("strike_after_append"),
        seed=6,
    ),
    Mutant(
        "markers_once",
        "A broker that cannot be reached is not asked again for its markers.",
        (Change(transaction_markers._is_over, "return code is ErrorCode.NONE", "return True"),),
        under("cut_between_brokers", "isolate"),
        seed=51,
    ),
    Mutant(
        "own_markers_only",
        "Partitions that the coordinator does not lead itself get no marker.",
        (
            Change(
                TransactionMarkerWriter._add_known,
                "else:",
                "elif partition.leader == self._own_id:",
            ),
        ),
        under("kill"),
    ),
    Mutant(
        "markers_not_resumed",
        "What the coordinator before had decided is never finished.",
        (Change(TransactionShard.loaded, "if transaction.state.is_prepared:", "if False:"),),
        under("kill", "kill_whoever_acknowledged"),
        seed=1,
    ),
    Mutant(
        "partitions_of_a_transaction_forgotten",
        "A transaction knows the partition that it was told of last.",
        (
            Change(
                Transaction.with_partitions,
                "self.partitions.union(partitions)",
                "frozenset(partitions)",
            ),
        ),
        under("kill"),
    ),
    Mutant(
        "late_ends_taken",
        "Jepsen's torn transaction: a late request to commit ends the transaction after it.",
        (
            Change(
                transaction_shard._check_producer,
                "if current.producer_epoch != producer.producer_epoch:",
                "if False:",
            ),
        ),
        playing(partial(transactions.play, transactions.torn_transaction)),
    ),
    Mutant(
        "late_batches_taken",
        "KIP-890: a batch of a transaction that has ended begins one that nobody ends.",
        (Change(TransactionalProduce._admit, "if code is not ErrorCode.NONE:", "if False:"),),
        playing(partial(transactions.play, transactions.hanging_transaction)),
        seed=1,
    ),
    Mutant(
        "left_open_and_committed",
        "What a producer has left open is committed when it begins anew.",
        (
            Change(
                TransactionShard.init_producer_id,
                "self._prepare(current, False, SERVER_VERSION, fresh_producer_id)",
                "self._prepare(current, True, SERVER_VERSION, fresh_producer_id)",
            ),
        ),
        playing(partial(transactions.play, transactions.left_open_by_a_crash)),
    ),
]
