"""Bugs of controllers."""

from __future__ import annotations

from functools import partial

from ottla.controller import (
    leader_selectors,
    partition_state_machine,
    producer_id_blocks,
    unclean_recovery,
)
from ottla.controller.active_controller import ActiveController
from ottla.controller.change_plan import ChangePlan
from ottla.membership.shutdown_evidence import ShutdownEvidence
from tests.simulation import test_cluster_scenarios as scenarios
from tests.simulation.mutants.mutant import Change, Mutant, playing, under
from tests.simulation.test_cluster_scenarios import play

CONTROLLERS: list[Mutant] = [
    Mutant(
        "unclean_elections",
        "Whoever is alive leads, also where unclean elections are not allowed.",
        (Change(leader_selectors.offline, "if allows_unclean else None", ""),),
        playing(partial(play, scenarios.first_back_is_not_in_sync)),
    ),
    Mutant(
        "eligible_for_ever",
        "KIP-966: who has left the ISR is eligible, though the others have committed since.",
        (
            Change(
                ChangePlan.eligible,
                "if len(isr) >= self.min_insync_replicas(topic_partition):",
                "if False:",
            ),
        ),
        under("kill", "isolate", "cut_between_brokers"),
        seed=7,
    ),
    Mutant(
        "unclean_brokers_stay_in_sync",
        "KIP-966: a broker whose power has failed counts as if it had everything.",
        (
            Change(
                unclean_recovery.plan_loss_of_tails,
                "if state is None or",
                "if True or state is None or",
            ),
        ),
        under("lose_power", "kill"),
        seed=3,
    ),
    Mutant(
        "loss_of_power_unnoticed",
        "A broker takes a start after a loss of power for one after a kill.",
        (Change(ShutdownEvidence._is_whole, "and mark.boot_id == self._boot_id", ""),),
        under("lose_power", "kill"),
        seed=3,
    ),
    Mutant(
        "restart_unnoticed",
        "No new epoch at a restart: who is back before the controller looked was never away.",
        (
            Change(
                ActiveController.brokers_changed,
                "if registered.get(broker.id) != broker",
                "if broker.id not in registered",
            ),
        ),
        under("kill_and_start_at_once"),
    ),
    Mutant(
        "no_new_epoch_at_election",
        "A new leader leads in the epoch of the one before.",
        (
            Change(
                partition_state_machine._elected_state,
                "leader_epoch=state.leader_epoch + 1",
                "leader_epoch=state.leader_epoch",
            ),
        ),
        under("kill", "isolate"),
    ),
    Mutant(
        "registrations_taken_for_known",
        "No new epoch at a restart, where a new controller is elected meanwhile.",
        (
            Change(
                ActiveController.take_over,
                "if context.accepted_epochs.get(broker.id) == broker.epoch",
                "",
            ),
        ),
        playing(partial(play, scenarios.last_replica_standing)),
    ),
    Mutant(
        "replaced_controllers_write",
        "A controller writes without looking whether it is the controller still.",
        (
            Change(
                ActiveController.commit,
                "Check(znodes.CONTROLLER_EPOCH, self.leadership.epoch_version)",
                "Check(znodes.CONTROLLER_EPOCH,"
                " (await self.store.get(znodes.CONTROLLER_EPOCH)).version)",
            ),
        ),
        playing(partial(play, scenarios.deposed_controller)),
    ),
    Mutant(
        "deletion_not_resumed",
        "A topic whose deletion waited for a broker stays half deleted when that is back.",
        (Change(ActiveController._go_on, "await topic_deletion.resume(self)", "pass"),),
        playing(partial(play, scenarios.deletion_met_by_a_return)),
    ),
    Mutant(
        "producer_ids_given_twice",
        "Two brokers get the same block of producer ids.",
        (
            Change(
                producer_id_blocks.next_block,
                "last.last_producer_id + 1 if last else 0",
                "0",
            ),
        ),
        under("kill"),
    ),
]
