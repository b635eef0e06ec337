"""Each anomaly: logs that have it, and some that are nearly the same and have none."""

from __future__ import annotations

from ottla.testing.history.anomaly import AnomalyKind
from ottla.testing.history.events import LeaderSeen, Send
from tests.support.histories import P0, P1, batch, kinds, replica

SENT = [Send("producer", value, P0) for value in "abc"]
DIFFER = {AnomalyKind.REPLICAS_DIFFER}
TWO_LEADERS = {AnomalyKind.TWO_LEADERS_IN_AN_EPOCH}


def test_replicas_are_equal_up_to_the_high_watermark() -> None:
    one = replica(batch(0, "a"), batch(1, "b"), broker_id=1, high_watermark=2)
    assert kinds(SENT, one, replica(batch(0, "a"), batch(1, "b"), broker_id=2)) == set()
    other = replica(batch(0, "a"), batch(1, "c", leader_epoch=1), broker_id=2)
    assert kinds(SENT, one, other) == DIFFER


def test_above_it_they_may_differ() -> None:
    one = replica(batch(0, "a"), batch(1, "b"), broker_id=1, high_watermark=1)
    other = replica(batch(0, "a"), batch(1, "c", leader_epoch=1), broker_id=2)
    assert kinds(SENT, one, other) == set()


def test_a_replica_has_all_up_to_the_high_watermark() -> None:
    one = replica(batch(0, "a"), batch(1, "b"), broker_id=1, high_watermark=1)
    shorter = replica(batch(0, "a"), broker_id=2)
    assert kinds(SENT, one, shorter) == set()
    assert kinds(SENT, one._replace(high_watermark=2), shorter) == DIFFER


def test_below_the_start_of_a_log_nothing_is_missed() -> None:
    one = replica(batch(0, "a"), batch(1, "b"), broker_id=1, high_watermark=2)
    later = replica(batch(1, "b"), broker_id=2, start_offset=1)
    assert kinds(SENT, one, later) == set()


def test_two_leaders_in_an_epoch_by_the_logs() -> None:
    one = replica(batch(0, "a", leader_epoch=3), broker_id=1)
    assert kinds(SENT, one, replica(batch(0, "b", leader_epoch=4), broker_id=2)) == set()
    assert kinds(SENT, one, replica(batch(0, "b", leader_epoch=3), broker_id=2)) == TWO_LEADERS


def test_epochs_of_a_log_do_not_go_back() -> None:
    assert kinds(SENT, replica(batch(0, "a", leader_epoch=1), batch(1, "b", leader_epoch=1))) == (
        set()
    )
    back = replica(batch(0, "a", leader_epoch=1), batch(1, "b", leader_epoch=0))
    assert kinds(SENT, back) == TWO_LEADERS


def test_two_leaders_in_an_epoch_by_what_clients_were_told() -> None:
    first = LeaderSeen("one", P0, leader=1, leader_epoch=3)
    assert kinds([first, LeaderSeen("two", P0, leader=1, leader_epoch=3)]) == set()
    assert kinds([first, LeaderSeen("two", P0, leader=2, leader_epoch=4)]) == set()
    assert kinds([first, LeaderSeen("two", P1, leader=2, leader_epoch=3)]) == set()
    assert kinds([first, LeaderSeen("two", P0, leader=2, leader_epoch=3)]) == TWO_LEADERS
