from __future__ import annotations

import logging

import pytest

from ottla.kernel.ids import BrokerId, TopicPartition
from ottla.kernel.state_change_log import NO_LEADER, StateChangeLog

CLICKS = TopicPartition("clicks", 0)


@pytest.fixture
def changes(caplog: pytest.LogCaptureFixture) -> StateChangeLog:
    caplog.set_level(logging.DEBUG, "ottla.state_change")
    return StateChangeLog(BrokerId(2))


def elected(
    changes: StateChangeLog, old: int, new: int, *, is_new: bool = False, is_unclean: bool = False
) -> None:
    changes.leader_changed(
        CLICKS,
        controller_epoch=3,
        leader=(old, new),
        leader_epoch=5,
        isr=((1, 2), (2,)),
        is_new=is_new,
        is_unclean=is_unclean,
    )


def test_a_line_for_each_change(changes: StateChangeLog, caplog: pytest.LogCaptureFixture) -> None:
    changes.replica_changed(CLICKS, "leads", 5)
    changes.log_truncated(CLICKS, 9, 7)
    changes.isr_changed(CLICKS, {2, 3}, {2})
    elected(changes, 1, 2)
    elected(changes, NO_LEADER, 2, is_unclean=True)
    changes.controller_changed("is now", 3)
    changes.session_changed("suspended")
    assert caplog.messages == [
        "broker 2: clicks-0 leads, leader epoch 5",
        "broker 2: clicks-0 is truncated from offset 9 to 7",
        "broker 2: clicks-0 ISR 2,3 to 2",
        "broker 2 as controller in epoch 3: clicks-0 leader 1 to 2, leader epoch 5, ISR 1,2 to 2",
        "broker 2 as controller in epoch 3: clicks-0 leader none to 2 (unclean), leader epoch 5,"
        " ISR 1,2 to 2",
        "broker 2 is now controller, epoch 3",
        "broker 2: its session is suspended",
    ]


def test_truncations_are_counted(changes: StateChangeLog) -> None:
    changes.log_truncated(CLICKS, 9, 7)
    changes.log_truncated(CLICKS, 8, 7)
    assert changes.truncations == 2


def test_changes_of_the_isr_are_counted(changes: StateChangeLog) -> None:
    changes.isr_changed(CLICKS, {1, 2}, {1})
    changes.isr_changed(CLICKS, {1}, {1, 2, 3})
    changes.isr_changed(CLICKS, {1, 2}, {1, 3})
    assert (changes.isr_shrinks, changes.isr_expands) == (2, 2)


def test_elections_are_counted(changes: StateChangeLog) -> None:
    elected(changes, NO_LEADER, 1, is_new=True)
    elected(changes, 1, NO_LEADER)
    elected(changes, 1, 1)
    assert changes.elections == 0
    elected(changes, NO_LEADER, 2)
    elected(changes, 2, 1, is_unclean=True)
    assert (changes.elections, changes.unclean_elections) == (2, 1)


def test_the_session(changes: StateChangeLog, caplog: pytest.LogCaptureFixture) -> None:
    for state in ("connected", "expired", "expired", "connected"):
        changes.session_changed(state)
    assert (changes.session, changes.session_expirations) == ("connected", 1)
    assert len(caplog.messages) == 2
