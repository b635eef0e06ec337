from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.kernel.ids import BrokerId
from ottla.replication.in_sync_replicas import InSyncReplicas

ONE, TWO, THREE = BrokerId(1), BrokerId(2), BrokerId(3)
LAG_TIME_MAX_S = 30
EPOCH = 7


class Leader:
    """Broker 1, with a log that ends at 100."""

    def __init__(self, isr: Iterable[BrokerId] = (ONE, TWO, THREE)) -> None:
        self.broker_epochs: dict[BrokerId, int] = {TWO: EPOCH, THREE: EPOCH}
        self.log_end_offset = 100
        self.now_s = 1000.0
        self.high_watermark = 0
        self.replicas = InSyncReplicas(
            ONE,
            replicas=(ONE, TWO, THREE),
            isr=isr,
            partition_epoch=4,
            log_end_offset=self.log_end_offset,
            lag_time_max_s=LAG_TIME_MAX_S,
            broker_epochs=self.broker_epochs.get,
            now_s=self.now_s,
        )

    def fetch(self, broker_id: BrokerId, offset: int, broker_epoch: int = EPOCH) -> None:
        self.replicas.followers[broker_id].fetched(
            offset,
            log_start_offset=0,
            broker_epoch=broker_epoch,
            leader_end_offset=self.log_end_offset,
            now_s=self.now_s,
        )

    def advance(self, min_insync_replicas: int = 2) -> int:
        self.high_watermark = self.replicas.high_watermark(
            self.high_watermark,
            log_end_offset=self.log_end_offset,
            min_insync_replicas=min_insync_replicas,
            now_s=self.now_s,
        )
        return self.high_watermark


# High watermark


def test_the_high_watermark_is_what_all_in_sync_replicas_have() -> None:
    leader = Leader()
    assert leader.advance() == 0, "nobody has told yet what it has"
    leader.fetch(TWO, 100)
    leader.fetch(THREE, 60)
    assert leader.advance() == 60
    leader.fetch(THREE, 100)
    assert leader.advance() == 100
    leader.fetch(THREE, 20)
    assert leader.advance() == 100, "it never goes back"


def test_a_replica_that_is_out_of_sync_is_not_waited_for() -> None:
    leader = Leader(isr=(ONE, TWO))
    leader.fetch(TWO, 100)
    leader.fetch(THREE, 5)
    assert leader.advance() == 100


def test_one_that_has_caught_up_is_waited_for_until_it_has_joined() -> None:
    leader = Leader(isr=(ONE, TWO))
    leader.fetch(THREE, 100)
    leader.log_end_offset = 110
    leader.fetch(TWO, 110)
    assert leader.advance() == 100
    leader.now_s += LAG_TIME_MAX_S + 1
    assert leader.advance() == 110


def test_it_stands_still_below_the_minimum_of_in_sync_replicas() -> None:
    leader = Leader(isr=(ONE,))
    assert leader.advance(min_insync_replicas=2) == 0
    assert leader.advance(min_insync_replicas=1) == 100


def test_while_a_change_is_open_the_members_of_both_sets_count() -> None:
    leader = Leader(isr=(ONE, TWO))
    leader.fetch(TWO, 100)
    leader.fetch(THREE, 100)
    leader.advance()
    expansion = leader.replicas.propose((ONE, TWO, THREE))
    leader.log_end_offset = 110
    leader.fetch(TWO, 110)
    leader.now_s += LAG_TIME_MAX_S + 1
    assert leader.advance() == 100, "the controller may have 3 in the ISR already"
    leader.replicas.refused(expansion)
    assert leader.advance() == 110

    shrink = leader.replicas.propose((ONE,))
    leader.log_end_offset = 120
    assert leader.advance(min_insync_replicas=1) == 110, "2 may be elected still"
    leader.replicas.answered(shrink, (ONE,), 5)
    assert leader.advance(min_insync_replicas=1) == 120


def test_the_low_watermark_is_that_of_live_replicas() -> None:
    leader = Leader()
    assert leader.replicas.low_watermark(30) == -1
    leader.fetch(TWO, 100)
    leader.fetch(THREE, 100)
    assert leader.replicas.low_watermark(30) == 0
    leader.broker_epochs.clear()
    assert leader.replicas.low_watermark(30) == 30


# Who is in sync


def test_a_follower_joins_when_it_has_all_that_was_ever_committed() -> None:
    leader = Leader(isr=(ONE, TWO))
    leader.high_watermark = 80
    assert not leader.replicas.may_join(THREE, 80), "it never fetched"
    leader.fetch(THREE, 99)
    assert not leader.replicas.may_join(THREE, 80), "below the start of the leader's epoch"
    leader.fetch(THREE, 100)
    assert leader.replicas.may_join(THREE, 100)
    assert not leader.replicas.may_join(THREE, 101)
    assert not leader.replicas.may_join(TWO, 0), "a member"
    assert not leader.replicas.may_join(BrokerId(4), 0), "no replica"


@pytest.mark.parametrize("registered", [None, EPOCH + 1])
def test_only_the_broker_that_is_registered_joins(registered: int | None) -> None:
    leader = Leader(isr=(ONE, TWO))
    leader.fetch(THREE, 100)
    assert leader.replicas.may_join(THREE, 100)
    if registered is None:
        del leader.broker_epochs[THREE]
    else:
        leader.broker_epochs[THREE] = registered
    assert not leader.replicas.may_join(THREE, 100)


def test_who_has_not_caught_up_for_too_long_lags() -> None:
    leader = Leader()
    leader.fetch(TWO, 100)
    leader.fetch(THREE, 50)
    leader.now_s += LAG_TIME_MAX_S
    assert leader.replicas.lagging(100, leader.now_s) == frozenset()
    leader.now_s += 1
    assert leader.replicas.lagging(100, leader.now_s) == {THREE}
    leader.replicas.propose((ONE, TWO))
    assert leader.replicas.lagging(100, leader.now_s) == frozenset()


# Changes


def test_only_the_answer_to_the_open_proposal_counts() -> None:
    leader = Leader()
    first = leader.replicas.propose((ONE, TWO))
    assert first.partition_epoch == 4
    leader.replicas.told((ONE, TWO), 5)
    second = leader.replicas.propose((ONE,))
    leader.replicas.answered(first, (ONE, TWO), 5)
    leader.replicas.refused(first)
    assert leader.replicas.proposal is second
    leader.replicas.answered(second, (ONE,), 6)
    assert leader.replicas.proposal is None
    assert (leader.replicas.committed, leader.replicas.partition_epoch) == ({ONE}, 6)


def test_the_same_state_told_again_settles_nothing() -> None:
    leader = Leader()
    proposal = leader.replicas.propose((ONE, TWO))
    leader.replicas.told((ONE, TWO, THREE), 4)
    assert leader.replicas.proposal is proposal
    leader.replicas.told((ONE, THREE), 5)
    assert leader.replicas.proposal is None
    assert leader.replicas.committed == {ONE, THREE}


def test_a_leader_is_in_its_isr() -> None:
    with pytest.raises(AssertionError, match="1 leads"):
        Leader(isr=(TWO,))


@given(st.data())
def test_what_is_committed_is_on_all_that_may_be_elected(data: st.DataObject) -> None:
    """Whatever comes in whatever order: no offset below the high watermark is missing on a replica
    that the controller may have in the ISR when the high watermark moves."""
    leader = Leader()
    brokers = st.sampled_from([TWO, THREE])
    sets = st.sampled_from([(ONE,), (ONE, TWO), (ONE, THREE), (ONE, TWO, THREE)])
    controllers = {frozenset(leader.replicas.committed)}
    for _ in range(data.draw(st.integers(1, 20))):
        match data.draw(st.sampled_from(["append", "fetch", "time", "propose", "settle"])):
            case "append":
                leader.log_end_offset += data.draw(st.integers(1, 5))
            case "fetch":
                leader.fetch(data.draw(brokers), data.draw(st.integers(90, leader.log_end_offset)))
            case "time":
                leader.now_s += data.draw(st.integers(1, 40))
            case "propose" if leader.replicas.proposal is None:
                controllers.add(leader.replicas.propose(data.draw(sets)).isr)
            case "settle" if (proposal := leader.replicas.proposal) is not None:
                if data.draw(st.booleans()):
                    epoch = proposal.partition_epoch + 1
                    leader.replicas.answered(proposal, proposal.isr, epoch)
                else:
                    leader.replicas.refused(proposal)
                controllers = {leader.replicas.committed}
        before = leader.high_watermark
        if leader.advance(min_insync_replicas=1) > before:
            for isr in controllers:
                ends = {
                    each: leader.replicas.followers[each].log_end_offset for each in isr - {ONE}
                }
                assert min(ends.values(), default=leader.high_watermark) >= leader.high_watermark
