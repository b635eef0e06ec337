"""What is wrong with a partition, from what metadata says of it."""

from __future__ import annotations

from collections.abc import Sequence

OFFLINE = "offline"
UNDER_REPLICATED = "under-replicated"
UNDER_MIN_ISR = "under-min-isr"
NOT_PREFERRED = "not on preferred leader"


def problems_of(
    leader: int | None, replicas: Sequence[int], isr: Sequence[int], min_insync_replicas: int
) -> list[str]:
    """Worst first. The preferred leader is the first replica of the assignment."""
    problems = []
    if leader is None:
        problems.append(OFFLINE)
    if len(isr) < len(replicas):
        problems.append(UNDER_REPLICATED)
    # More than there are replicas can't be met; Kafka's own tool asks for the smaller one too.
    if len(isr) < min(min_insync_replicas, len(replicas)):
        problems.append(UNDER_MIN_ISR)
    if leader is not None and replicas and leader != replicas[0]:
        problems.append(NOT_PREFERRED)
    return problems
