from __future__ import annotations

import pytest

from ottla.controller.leader_selectors import (
    Candidates,
    Elected,
    controlled_shutdown,
    offline,
    preferred,
    reassigned,
)
from ottla.coordination.znodes import LeaderAndIsr


def candidates(
    replicas: tuple[int, ...],
    *,
    online: tuple[int, ...],
    isr: tuple[int, ...],
    eligible: tuple[int, ...] = (),
) -> Candidates:
    state = LeaderAndIsr(replicas[0], 5, isr, 1, eligible_leader_replicas=eligible)
    return Candidates(replicas, online, state)


@pytest.mark.parametrize(
    ("online", "isr", "eligible", "allows_unclean", "expected"),
    [
        ((2, 3), (1, 2, 3), (), False, Elected(2, (2, 3))),
        ((2, 3), (1, 3), (), False, Elected(3, (3,))),
        ((2, 3), (1,), (), False, None),
        ((2, 3), (1,), (3,), False, Elected(3, (3,))),
        ((2, 3), (1,), (3,), True, Elected(3, (3,))),
        ((2, 3), (), (3,), False, Elected(3, (3,))),
        ((2, 3), (1,), (), True, Elected(2, (2,), is_unclean=True)),
        ((), (1,), (2,), True, None),
    ],
)
def test_when_the_leader_is_gone(
    online: tuple[int, ...],
    isr: tuple[int, ...],
    eligible: tuple[int, ...],
    allows_unclean: bool,
    expected: Elected | None,
) -> None:
    found = candidates((1, 2, 3), online=online, isr=isr, eligible=eligible)
    assert offline(found, allows_unclean=allows_unclean) == expected


@pytest.mark.parametrize(
    ("online", "isr", "target", "expected"),
    [
        ((1, 2, 3, 4), (1, 3, 4), (4, 3), Elected(3, (1, 3, 4))),
        ((1, 2, 3), (1, 3, 4), (4, 3), Elected(3, (1, 3, 4))),
        ((1, 2, 4), (1, 3), (4, 3), None),
    ],
)
def test_when_the_partition_moves_away_from_its_leader(
    online: tuple[int, ...],
    isr: tuple[int, ...],
    target: tuple[int, ...],
    expected: Elected | None,
) -> None:
    found = candidates((1, 2, 3, 4), online=online, isr=isr)
    assert reassigned(found, target=target) == expected


def test_the_preferred_one_leads_when_it_is_online_and_in_sync() -> None:
    assert preferred(candidates((1, 2), online=(1, 2), isr=(2, 1))) == Elected(1, (2, 1))
    assert preferred(candidates((1, 2), online=(2,), isr=(1, 2))) is None
    assert preferred(candidates((1, 2), online=(1, 2), isr=(2,))) is None


def test_who_shuts_down_leads_no_more_and_leaves_the_isr() -> None:
    found = candidates((1, 2, 3), online=(1, 2, 3), isr=(1, 2, 3))
    assert controlled_shutdown(found, shutting_down={1}) == Elected(2, (2, 3))
    assert controlled_shutdown(found, shutting_down={1, 2}) == Elected(3, (3,))
    assert controlled_shutdown(found, shutting_down={1, 2, 3}) is None


def test_the_only_one_of_the_last_isr_leads_though_it_may_have_lost_records() -> None:
    found = candidates((1, 2, 3), online=(1, 2), isr=())
    one = found._replace(state=found.state._replace(last_known_elr=(2,)))
    assert offline(one, allows_unclean=False) == Elected(2, (2,))
    away = found._replace(state=found.state._replace(last_known_elr=(3,)))
    assert offline(away, allows_unclean=False) is None
    two = found._replace(state=found.state._replace(last_known_elr=(1, 2)))
    assert offline(two, allows_unclean=False) is None
