"""A sequence: some thirty requests of one kind that follow from a seed."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from tests.support.random_requests import classic_groups, consumer_groups, log, topics, transactions
from tests.support.random_requests.comparable import comparable
from tests.support.side_by_side import Both, differences

STEP_COUNT = 31
LINE_MAX = 2000


class Kind(NamedTuple):
    stage: Callable[..., Any]
    steps: Mapping[Callable[..., Any], int]
    """With how often each is taken, next to the others."""


KINDS = {
    "log": Kind(log.Log, log.STEPS),
    "topics": Kind(topics.Topics, topics.STEPS),
    "members": Kind(classic_groups.ClassicGroups, classic_groups.STEPS),
    "consumers": Kind(consumer_groups.ConsumerGroups, consumer_groups.STEPS),
    "transactions": Kind(transactions.Transactions, transactions.STEPS),
}


@dataclass(frozen=True)
class Difference:
    """The first in a sequence; what follows from it is not looked at."""

    seed: str
    step: int
    asked: str
    lines: list[str]

    def __str__(self) -> str:
        head = f"{self.seed!r}, step {self.step}: {self.asked}"
        return "\n".join(line[:LINE_MAX] for line in [head, *self.lines])


def run(both: Both, seed: str) -> Difference | None:
    """A seed begins with the kind of its sequence: 'log 5'."""
    kind = KINDS[seed.split()[0]]
    # Names must be new at each run: the brokers live on.
    prefix = f"{seed.replace(' ', '-')}-{uuid.uuid4().hex[:6]}"
    stages = [kind.stage(subject, prefix) for subject in both]
    try:
        for stage in stages:
            stage.rng.seed(seed)
            stage.prepare()
        order = random.Random(seed)
        steps = order.choices(list(kind.steps), list(kind.steps.values()), k=STEP_COUNT)
        for number, step in enumerate(steps):
            found = []
            for stage in stages:
                stage.rng.seed(f"{seed}, {number}")
                found.append(comparable(stage, step(stage)))
            lines = list(differences(*found))
            if lines:
                return Difference(seed, number, stages[0].asked, lines)
        return None
    finally:
        for stage in stages:
            stage.close()
