"""A member of a classic group: what it waits for, and what keeps it alive."""

from __future__ import annotations

import pytest

from ottla.coordinators.groups.classic.member import (
    ClassicMember,
    JoinWaiting,
    Protocol,
    in_version,
)
from ottla.coordinators.result import Deferred
from ottla.wire.messages.join_group import JoinGroupResponse
from ottla.wire.messages.sync_group import SyncGroupResponse


def new_member(instance_id: str | None = None) -> ClassicMember:
    return ClassicMember(
        "member",
        instance_id=instance_id,
        client_id="app",
        client_host="/10.0.0.1",
        rebalance_timeout_ms=60_000,
        session_timeout_ms=10_000,
        protocols=(Protocol("range", b"r"), Protocol("sticky", b"s")),
    )


def test_it_votes_for_what_it_likes_best_of_what_can_be_had() -> None:
    member = new_member()

    assert member.vote({"range", "sticky"}) == "range"
    assert member.vote({"sticky", "other"}) == "sticky"
    with pytest.raises(AssertionError):
        member.vote({"other"})


def test_it_has_metadata_for_each_of_its_protocols() -> None:
    member = new_member()

    assert (member.metadata("range"), member.metadata("sticky")) == (b"r", b"s")
    with pytest.raises(AssertionError):
        member.metadata("other")


def test_it_needs_no_heartbeats_while_it_waits_unless_it_is_new() -> None:
    idle, syncing, joining, new = (new_member() for _ in range(4))
    syncing.sync_waiting = Deferred()
    joining.join_waiting = JoinWaiting(Deferred(), 9)
    new.join_waiting = JoinWaiting(Deferred(), 9)
    new.is_new = True

    kept_alive = [member.is_kept_alive for member in (idle, syncing, joining, new)]

    assert kept_alive == [False, True, True, False]


def test_it_is_static_by_its_instance_id() -> None:
    assert not new_member().is_static
    assert new_member("one").is_static
    assert new_member("").is_static, "an empty id is one as well"


def test_it_is_answered_once() -> None:
    member = new_member()
    waiting: Deferred[SyncGroupResponse] = Deferred()
    member.await_sync(waiting)

    assert member.answer_sync(SyncGroupResponse(assignment=b"first"))
    assert not member.answer_sync(SyncGroupResponse(assignment=b"second"))
    assert waiting.value.assignment == b"first"


@pytest.mark.parametrize(
    ("version", "named", "expected"),
    [(6, None, ""), (6, "range", "range"), (7, "", None), (7, "range", "range")],
)
def test_no_protocol_is_spelled_as_the_version_has_it(
    version: int, named: str | None, expected: str | None
) -> None:
    response = in_version(JoinGroupResponse(protocol_name=named), version)

    assert response.protocol_name == expected
