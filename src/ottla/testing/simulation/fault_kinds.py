"""All kinds of faults, by name."""

from __future__ import annotations

from ottla.testing.simulation import disk_faults, faults, strikes
from ottla.testing.simulation.faults import Fault

KINDS: dict[str, Fault] = {
    kind.__name__: kind
    for kind in (
        faults.kill,
        faults.kill_and_start_at_once,
        faults.kill_all,
        faults.kill_whoever_acknowledged,
        faults.pause_whoever_acknowledged,
        faults.lose_power,
        faults.pause,
        faults.restart_cleanly,
        faults.roll,
        faults.slow_network,
        faults.cut_between_brokers,
        faults.isolate,
        faults.reset_connections,
        faults.cut_off_store,
        faults.cut_off_store_of_all,
        faults.lose_answers_of_store,
        faults.expire_sessions,
        faults.depose_controllers,
        faults.kill_controllers,
        disk_faults.fail_disk_once,
        disk_faults.fail_disk_for_a_while,
        disk_faults.fill_disk,
        disk_faults.replace_disk,
        disk_faults.evict_files,
        disk_faults.stall_disk,
        strikes.strike_after_append,
        strikes.strike_after_store_write,
        strikes.strike_after_state_change,
        strikes.strike_coordinator_in_transaction,
    )
}
