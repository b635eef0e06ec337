"""What a run has exercised, counted: a fault that never happened has shown nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from ottla.testing.history.events import Acknowledged, Ended, Event, Outcome
from ottla.testing.simulation.cluster import SimulatedCluster
from ottla.testing.simulation.fault_kinds import KINDS

NAMES = (
    "elections",
    "unclean elections",
    "controllers",
    "ISR shrinks",
    "ISR expands",
    "truncations",
    "sessions expired",
    "store answers lost",
    "kills",
    "losses of power",
    "disks replaced",
    "brokers that gave up",
    "pauses",
    "clean stops",
    "restarts",
    "records acknowledged",
    "transactions committed",
    "transactions aborted",
    "transactions of unknown outcome",
    "rebalances",
)
"""What is counted besides faults."""

_OUTCOMES = {
    Outcome.COMMITTED: "transactions committed",
    Outcome.ABORTED: "transactions aborted",
    Outcome.UNKNOWN: "transactions of unknown outcome",
}


def count_exercised(
    cluster: SimulatedCluster,
    history: Iterable[Event],
    fault_names: Iterable[str],
    rebalances: int,
) -> dict[str, int]:
    """By NAMES, then by kinds of faults. What did not happen is in it, with 0."""
    counts = Counter(cluster.counts)
    for changes in cluster.state_change_logs:
        counts["elections"] += changes.elections
        counts["unclean elections"] += changes.unclean_elections
        counts["ISR shrinks"] += changes.isr_shrinks
        counts["ISR expands"] += changes.isr_expands
        counts["truncations"] += changes.truncations
        counts["sessions expired"] += changes.session_expirations
    counts["store answers lost"] = cluster.ensemble.lost_answer_count
    for event in history:
        if isinstance(event, Acknowledged):
            counts["records acknowledged"] += 1
        elif isinstance(event, Ended):
            counts[_OUTCOMES[event.outcome]] += 1
    counts["rebalances"] = rebalances
    unknown = counts.keys() - set(NAMES)
    assert not unknown, f"counted, and told to nobody: {unknown}"
    faults = Counter(f"fault {name.partition(':')[0]}" for name in fault_names)
    return {name: counts[name] for name in NAMES} | {
        name: faults[name] for name in (f"fault {kind}" for kind in sorted(KINDS))
    }
