from __future__ import annotations

from ottla.coordinators.groups.consumer.member import (
    ConsumerMember,
    MemberState,
    with_epoch,
    without_epochs,
)
from ottla.coordinators.groups.records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentValue,
    TopicPartitions,
)
from ottla.kernel.ids import TopicId

T, U = TopicId(b"t" * 16), TopicId(b"u" * 16)

WHOLE = ConsumerMember(
    member_id="m",
    instance_id="i",
    rack_id="r",
    client_id="c",
    client_host="/h",
    rebalance_timeout_ms=5,
    server_assignor="range",
    subscribed_topic_names=frozenset({"t", "u"}),
    subscribed_topic_regex="x.*",
    classic=ClassicMemberMetadata(
        session_timeout_ms=7, supported_protocols=[ClassicProtocol(name="p", metadata=b"x")]
    ),
    member_epoch=4,
    previous_member_epoch=3,
    state=MemberState.UNREVOKED_PARTITIONS,
    assigned={T: {0: 4, 2: 1}},
    pending_revocation={U: {1: 2}},
)


def test_its_two_records_make_it_up() -> None:
    metadata, current = WHOLE.metadata_value(["t", "u"]), WHOLE.current_assignment_value()
    new = ConsumerMember.new("m")
    assert new.with_metadata(metadata).with_current_assignment(current) == WHOLE
    assert new.with_current_assignment(current).with_metadata(metadata) == WHOLE


def test_epochs_that_do_not_fit_the_partitions_are_not_believed() -> None:
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=-2,
        assigned_partitions=[TopicPartitions(topic_id=T, partitions=[0, 1], assignment_epochs=[5])],
    )
    assert ConsumerMember.new("m").with_current_assignment(value).assigned == {T: {0: 0, 1: 0}}


def test_the_epoch_before_is_remembered_until_the_next_step() -> None:
    moved = WHOLE.at_epoch(6)
    assert (moved.member_epoch, moved.previous_member_epoch) == (6, 4)
    again = moved.at_epoch(6)
    assert (again.member_epoch, again.previous_member_epoch) == (6, 6)


def test_the_epoch_of_a_partition_is_known_while_it_is_given_up() -> None:
    assert WHOLE.assignment_epoch_of(T, 2) == 1
    assert WHOLE.assignment_epoch_of(U, 1) == 2
    assert WHOLE.assignment_epoch_of(U, 0) is None


def test_assignments_with_and_without_epochs() -> None:
    plain = {T: frozenset({0, 2})}
    assert without_epochs(WHOLE.assigned) == plain
    assert with_epoch(plain, 9) == {T: {0: 9, 2: 9}}
