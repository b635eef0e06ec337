"""The states of a classic group, and what it knows about its members."""

from __future__ import annotations

import pytest

from ottla.coordinators.groups.classic.group import TRANSITIONS, ClassicGroup, ClassicState
from ottla.coordinators.groups.classic.member import ClassicMember, Protocol
from ottla.kernel.errors import KafkaError

NOW_MS = 1_700_000_000_000


def member(name: str, *protocols: str, metadata: bytes = b"") -> ClassicMember:
    return ClassicMember(
        name,
        instance_id=None,
        client_id=name,
        client_host="/10.0.0.1",
        rebalance_timeout_ms=60_000,
        session_timeout_ms=10_000,
        protocols=tuple(Protocol(protocol, metadata) for protocol in protocols),
    )


def group_of(*members: ClassicMember, protocol_type: str = "consumer") -> ClassicGroup:
    group = ClassicGroup("group", now_ms=NOW_MS)
    for each in members:
        group.add(each, protocol_type)
    if members:
        group.state = ClassicState.PREPARING_REBALANCE
        group.begin_generation(NOW_MS)
    return group


def subscription(*topics: str, version: int = 1) -> bytes:
    named = b"".join(len(topic).to_bytes(2, "big") + topic.encode() for topic in topics)
    return version.to_bytes(2, "big") + len(topics).to_bytes(4, "big") + named + b"\0\0\0\0rest"


# -- states ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("before", ClassicState)
@pytest.mark.parametrize("after", ClassicState)
def test_a_group_changes_its_state_by_the_table_only(
    before: ClassicState, after: ClassicState
) -> None:
    group = ClassicGroup("group", now_ms=NOW_MS, state=before)

    if after in TRANSITIONS[before]:
        group.transition_to(after, NOW_MS + 1)
        assert (group.state, group.state_timestamp_ms) == (after, NOW_MS + 1)
    else:
        with pytest.raises(AssertionError):
            group.transition_to(after, NOW_MS + 1)
        assert group.state is before


def test_the_names_of_states_are_those_that_tools_show() -> None:
    assert [state.value for state in ClassicState] == [
        "Empty",
        "PreparingRebalance",
        "CompletingRebalance",
        "Stable",
        "Dead",
    ]


# -- protocols ------------------------------------------------------------------------------------


def test_the_protocol_that_most_prefer_wins() -> None:
    group = group_of(
        member("a", "range", "sticky"),
        member("b", "sticky", "range"),
        member("c", "sticky", "range"),
    )

    assert group.protocol_name == "sticky"


def test_only_a_protocol_that_all_support_can_win() -> None:
    group = group_of(
        member("a", "range", "sticky"), member("b", "range", "sticky"), member("c", "sticky")
    )

    assert group.protocol_name == "sticky"


def test_a_protocol_can_win_again_when_who_lacked_it_has_left() -> None:
    group = group_of(member("a", "range", "sticky"), member("b", "sticky"))
    assert group.select_protocol() == "sticky"

    group.remove("b")

    assert group.select_protocol() == "range"
    assert group.supports("consumer", (Protocol("range", b""),))


def test_a_protocol_that_is_named_twice_counts_once() -> None:
    group = group_of(member("a", "range", "range"), member("b", "sticky", "range"))

    assert group.select_protocol() == "range"


def test_one_who_supports_nothing_in_common_cannot_join() -> None:
    group = group_of(member("a", "range"), member("b", "range"))

    assert not group.supports("consumer", (Protocol("sticky", b""),))
    assert not group.supports("connect", (Protocol("range", b""),))
    assert not group.supports("consumer", ())


# -- leaders --------------------------------------------------------------------------------------


def test_the_first_member_leads_and_the_next_one_after_it() -> None:
    group = group_of(member("a", "range"), member("b", "range"), member("c", "range"))
    assert group.leader_id == "a"

    group.remove("b")
    assert group.leader_id == "a"
    group.remove("a")
    assert group.leader_id == "c"
    group.remove("c")
    assert group.leader_id is None


# -- topics and offsets ---------------------------------------------------------------------------


def test_a_group_is_subscribed_to_what_any_member_reads() -> None:
    group = group_of(
        member("a", "range", metadata=subscription("orders", "clicks")),
        member("b", "range", metadata=subscription("orders", version=3)),
    )

    assert group.is_subscribed_to("orders")
    assert group.is_subscribed_to("clicks")
    assert not group.is_subscribed_to("other")


def test_a_consumer_that_cannot_be_understood_may_read_any_topic() -> None:
    group = group_of(member("a", "range", metadata=b"\0"))

    assert group.is_subscribed_to("orders")


def test_what_is_no_consumer_reads_no_topics() -> None:
    group = group_of(member("a", "default", metadata=b"\0"), protocol_type="connect")

    assert not group.is_subscribed_to("orders")
    group.state = ClassicState.STABLE
    assert group.offset_expiry_base_ms(5) is None


def test_offsets_of_an_empty_group_age_from_when_it_became_empty() -> None:
    group = group_of(member("a", "range", metadata=subscription("orders")))
    group.remove("a")
    group.state = ClassicState.PREPARING_REBALANCE
    group.begin_generation(NOW_MS + 7)

    assert group.is_empty
    assert not group.is_subscribed_to("orders")
    assert group.offset_expiry_base_ms(5) == NOW_MS + 7
    group.state_timestamp_ms = -1
    assert group.offset_expiry_base_ms(5) == 5, "an old record does not say when"


def test_offsets_of_topics_that_a_stable_group_no_longer_reads_age_from_their_commit() -> None:
    group = group_of(member("a", "range", metadata=subscription("orders")))

    assert group.offset_expiry_base_ms(5) is None, "it rebalances"
    group.transition_to(ClassicState.STABLE, NOW_MS)
    assert group.offset_expiry_base_ms(5) == 5


def test_offsets_of_a_group_that_never_had_members_age_from_their_commit() -> None:
    assert ClassicGroup("group", now_ms=NOW_MS).offset_expiry_base_ms(5) == 5


def test_offsets_are_deleted_where_it_is_known_who_reads_what() -> None:
    ClassicGroup("group", now_ms=NOW_MS).check_offset_delete()
    group_of(member("a", "range", metadata=subscription("orders"))).check_offset_delete()
    with pytest.raises(KafkaError, match="has members"):
        group_of(member("a", "default"), protocol_type="connect").check_offset_delete()
