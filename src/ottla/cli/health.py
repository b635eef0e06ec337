"""What is wrong with partitions, from what metadata says of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from confluent_kafka.admin import AdminClient, TopicMetadata

from ottla.cli.configs import readable_configs

OFFLINE = "offline"
UNDER_REPLICATED = "under-replicated"
UNDER_MIN_ISR = "under-min-isr"
NOT_PREFERRED = "not on preferred leader"
WORST_FIRST = (OFFLINE, UNDER_REPLICATED, UNDER_MIN_ISR, NOT_PREFERRED)


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


def problems_by_topic(
    admin: AdminClient, topics: Mapping[str, TopicMetadata]
) -> dict[str, Counter[str]]:
    """How many partitions of each topic have which problem. Without a topic's settings nobody
    knows whether its in-sync replicas are too few, and the rest is told all the same."""
    # What is all in sync meets any min.insync.replicas: only the others are asked for it.
    suspects = [
        name
        for name, topic in topics.items()
        if any(len(part.isrs) < len(part.replicas) for part in topic.partitions.values())
    ]
    configs = readable_configs(admin, "topic", suspects) if suspects else {}
    min_isrs = {name: int(found["min.insync.replicas"]["value"]) for name, found in configs.items()}
    return {
        name: Counter(
            problem
            for part in topic.partitions.values()
            for problem in problems_of(
                part.leader if part.leader >= 0 else None,
                part.replicas,
                part.isrs,
                min_isrs.get(name, 0),
            )
        )
        for name, topic in topics.items()
    }


def health_text(problems: Mapping[str, int]) -> str:
    """Worst first, as `problems_of` has them.

    >>> health_text({"under-replicated": 3, "offline": 1})
    '1 offline, 3 under-replicated'
    """
    found = [f"{problems[name]} {name}" for name in WORST_FIRST if problems.get(name)]
    return ", ".join(found) or "ok"


def all_problems(by_topic: Iterable[Mapping[str, int]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for problems in by_topic:
        total.update(problems)
    return total
