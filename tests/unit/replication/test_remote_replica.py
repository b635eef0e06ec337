from __future__ import annotations

import pytest

from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import BrokerId
from ottla.replication.remote_replica import UNKNOWN_OFFSET, RemoteReplica

LAG_TIME_MAX_S = 30


def make(*, is_in_sync: bool = True, now_s: float = 100) -> RemoteReplica:
    return RemoteReplica(BrokerId(2), is_in_sync=is_in_sync, leader_end_offset=10, now_s=now_s)


def fetch(replica: RemoteReplica, offset: int, leader_end: int, now_s: float) -> None:
    replica.fetched(
        offset, log_start_offset=0, broker_epoch=7, leader_end_offset=leader_end, now_s=now_s
    )


def test_a_member_of_the_isr_has_the_whole_lag_time_for_its_first_fetch() -> None:
    replica = make()
    assert replica.log_end_offset == UNKNOWN_OFFSET
    assert replica.is_caught_up(10, 130, LAG_TIME_MAX_S)
    assert not replica.is_caught_up(10, 130.1, LAG_TIME_MAX_S)
    assert not make(is_in_sync=False, now_s=1).is_caught_up(10, 1, LAG_TIME_MAX_S)


def test_a_fetch_at_the_leaders_end_is_caught_up() -> None:
    replica = make(is_in_sync=False)
    fetch(replica, 10, 10, 200)
    assert (replica.log_end_offset, replica.last_caught_up_s) == (10, 200)
    assert (replica.log_start_offset, replica.broker_epoch) == (0, 7)


def test_under_load_it_had_caught_up_when_it_has_what_the_leader_had_before() -> None:
    replica = make()
    fetch(replica, 5, 20, 200)
    assert replica.last_caught_up_s == 100
    fetch(replica, 20, 40, 201)
    assert replica.last_caught_up_s == 200
    fetch(replica, 39, 60, 202)
    assert replica.last_caught_up_s == 200, "the leader had 40 at 201"


def test_one_that_has_everything_lags_behind_nobody() -> None:
    replica = make()
    fetch(replica, 10, 10, 200)
    assert replica.is_caught_up(10, 10_000, LAG_TIME_MAX_S)
    assert not replica.is_caught_up(11, 10_000, LAG_TIME_MAX_S)


def test_a_log_that_was_cut_counts_as_it_is() -> None:
    replica = make()
    fetch(replica, 10, 10, 200)
    fetch(replica, 4, 10, 201)
    assert replica.log_end_offset == 4
    assert replica.last_caught_up_s == 200


def test_a_late_fetch_of_a_broker_that_was_started_since_counts_for_nothing() -> None:
    """It may have come back with an empty disk."""
    replica = make()
    fetch(replica, 0, 10, 200)
    with pytest.raises(KafkaError) as refused:
        replica.fetched(10, log_start_offset=0, broker_epoch=6, leader_end_offset=10, now_s=201)
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (replica.log_end_offset, replica.broker_epoch) == (0, 7)


class Session:
    epoch = 1
    is_waiting = False

    def __init__(self, last_used_s: float) -> None:
        self.last_used_s = last_used_s


def test_fetches_of_its_session_count_though_they_do_not_name_the_partition() -> None:
    replica = make()
    fetch(replica, 10, 10, 200)
    replica.session = Session(900)
    replica.leader_gets_more(10)
    assert (replica.last_fetch_s, replica.last_caught_up_s) == (900, 900)
    fetch(replica, 10, 20, 905)
    assert replica.last_caught_up_s == 900, "at 905 the leader had 20"
    assert not replica.is_caught_up(20, 931, LAG_TIME_MAX_S)


@pytest.mark.parametrize("has_session", [True, False])
def test_fetches_count_for_what_has_nothing_new_only(has_session: bool) -> None:
    replica = make()
    fetch(replica, 10 if not has_session else 9, 10, 200)
    replica.session = Session(900) if has_session else None
    replica.leader_gets_more(10)
    assert replica.last_fetch_s == 200
