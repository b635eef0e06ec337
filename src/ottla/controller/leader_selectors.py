"""Who leads a partition next: one function for each reason to choose.

All choose the first that will do, in the order of the assignment: the first replica of that is the
preferred one. None means that nobody will do.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from ottla.coordination.znodes import LeaderAndIsr


class Candidates(NamedTuple):
    replicas: tuple[int, ...]
    """As assigned."""
    online: Collection[int]
    """Those of them that are alive, with a disk that works."""
    state: LeaderAndIsr


class Elected(NamedTuple):
    leader: int
    isr: tuple[int, ...]
    is_unclean: bool = False
    """Records that were committed may be lost."""


def offline(candidates: Candidates, *, allows_unclean: bool) -> Elected | None:
    """The leader is gone. One of the ISR, else one that has every committed record all the same
    (KIP-966), else, if that is allowed, any."""
    replicas, online, state = candidates
    in_sync = _first(replicas, online, state.isr)
    if in_sync is not None:
        return Elected(in_sync, _only(state.isr, online))
    eligible = _first(replicas, online, state.eligible_leader_replicas)
    if eligible is not None:
        return Elected(eligible, (eligible,))
    if len(state.last_known_elr) == 1 and not state.isr and not state.eligible_leader_replicas:
        # It may have lost records, and there is nobody to compare it with.
        last = _first(replicas, online, state.last_known_elr)
        if last is not None:
            return Elected(last, (last,))
    anyone = _first(replicas, online, replicas) if allows_unclean else None
    return None if anyone is None else Elected(anyone, (anyone,), is_unclean=True)


def reassigned(candidates: Candidates, *, target: Collection[int]) -> Elected | None:
    """The partition moves to `target`, and its leader is not among them."""
    replicas, online, state = candidates
    return _in_sync([each for each in replicas if each in target], online, state)


def preferred(candidates: Candidates) -> Elected | None:
    replicas, online, state = candidates
    return _in_sync(replicas[:1], online, state)


def controlled_shutdown(
    candidates: Candidates, *, shutting_down: Collection[int]
) -> Elected | None:
    """The leader asked to be relieved. It leaves the ISR as well: it is about to stop."""
    replicas, online, state = candidates
    staying = tuple(each for each in state.isr if each not in shutting_down)
    leader = _first(replicas, online, staying)
    return None if leader is None else Elected(leader, staying)


def _in_sync(
    replicas: Collection[int], online: Collection[int], state: LeaderAndIsr
) -> Elected | None:
    leader = _first(replicas, online, state.isr)
    return None if leader is None else Elected(leader, state.isr)


def _first(
    replicas: Collection[int], online: Collection[int], among: Collection[int]
) -> int | None:
    return next((each for each in replicas if each in online and each in among), None)


def _only(members: tuple[int, ...], online: Collection[int]) -> tuple[int, ...]:
    return tuple(each for each in members if each in online)
