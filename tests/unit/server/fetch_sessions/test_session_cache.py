from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.slices import Slices
from ottla.server.fetch_sessions import session_cache
from ottla.server.fetch_sessions.session import NO_SESSION
from ottla.server.fetch_sessions.session_cache import EPOCH_MAX, FetchSessionCache
from ottla.testing.loop import VirtualClock, VirtualLoop
from ottla.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    loop = VirtualLoop()
    yield loop
    # Of what raised in the middle of a slice.
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()


@pytest.fixture
def sessions(loop: VirtualLoop) -> FetchSessionCache:
    return FetchSessionCache(VirtualClock(loop), random.Random(0), slot_count=2)


def request(*partitions: int, session_id: int = 0, epoch: int = 0) -> FetchRequest:
    asked = [FetchPartition(partition=number, fetch_offset=5) for number in partitions]
    topics = [FetchTopic(topic="t", partitions=asked)] if asked else []
    return FetchRequest(session_id=session_id, session_epoch=epoch, topics=topics)


def test_a_full_fetch_opens_a_session(sessions: FetchSessionCache) -> None:
    session, is_incremental = sessions.begin(request(0, 1), False)
    assert not is_incremental
    assert session.id != NO_SESSION
    assert list(session.partitions) == [("t", 0), ("t", 1)]


def test_a_final_epoch_wants_no_session_and_closes_the_one_it_names(
    sessions: FetchSessionCache,
) -> None:
    first, _ = sessions.begin(request(0), False)
    second, is_incremental = sessions.begin(request(0, session_id=first.id, epoch=-1), False)
    assert (second.id, is_incremental) == (NO_SESSION, False)
    assert len(sessions) == 0


def test_an_incremental_fetch_changes_only_what_it_names(sessions: FetchSessionCache) -> None:
    session, _ = sessions.begin(request(0, 1), False)
    update = request(2, session_id=session.id, epoch=1)
    update.forgotten_topics_data = [ForgottenTopic(topic="t", partitions=[0])]
    same, is_incremental = sessions.begin(update, False)
    assert same is session
    assert is_incremental
    assert [index for _, index in session.partitions] == [1, 2]


def test_epochs_go_on_and_wrap_around(sessions: FetchSessionCache) -> None:
    session, _ = sessions.begin(request(0), False)
    for epoch in (1, 2, 3):
        sessions.begin(request(session_id=session.id, epoch=epoch), False)
    session.epoch = EPOCH_MAX
    sessions.begin(request(session_id=session.id, epoch=EPOCH_MAX), False)
    assert session.epoch == 1


@pytest.mark.parametrize(
    ("session_offset", "epoch", "uses_topic_ids", "code"),
    [
        (1, 1, False, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        (0, 2, False, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        (0, 1, True, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR),
    ],
)
def test_a_client_out_of_step_must_begin_anew(
    sessions: FetchSessionCache,
    session_offset: int,
    epoch: int,
    uses_topic_ids: bool,
    code: ErrorCode,
) -> None:
    session, _ = sessions.begin(request(0), False)
    asked = request(session_id=session.id + session_offset, epoch=epoch)
    with pytest.raises(KafkaError) as raised:
        sessions.begin(asked, uses_topic_ids)
    assert raised.value.code is code


def test_when_every_place_is_taken_a_client_fetches_without_a_session(
    sessions: FetchSessionCache,
) -> None:
    sessions.begin(request(0), False)
    sessions.begin(request(0), False)
    third, _ = sessions.begin(request(0), False)
    assert third.id == NO_SESSION


def test_the_session_unused_for_longest_gives_way_when_it_was_unused_for_long(
    loop: VirtualLoop, sessions: FetchSessionCache
) -> None:
    first, _ = sessions.begin(request(0), False)
    second, _ = sessions.begin(request(0), False)
    loop.now_s += 100
    sessions.begin(request(session_id=first.id, epoch=1), False)
    loop.now_s += 100
    third, _ = sessions.begin(request(0), False)
    assert third.id != NO_SESSION
    with pytest.raises(KafkaError):
        sessions.begin(request(session_id=second.id, epoch=1), False)
    sessions.begin(request(session_id=first.id, epoch=2), False)


def test_a_session_may_begin_without_partitions(sessions: FetchSessionCache) -> None:
    session, _ = sessions.begin(request(), False)
    assert session.id != NO_SESSION
    assert len(sessions) == 1


def test_sessions_have_only_so_many_partitions_together(
    sessions: FetchSessionCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_cache, "PARTITION_COUNT_MAX", 5)
    first, _ = sessions.begin(request(0, 1, 2), False)
    refused, _ = sessions.begin(request(0, 1, 2), False)
    assert (first.id == NO_SESSION, refused.id == NO_SESSION) == (False, True)
    assert len(refused.partitions) == 3
    second, _ = sessions.begin(request(0, 1), False)
    with pytest.raises(KafkaError) as caught:
        sessions.begin(request(2, session_id=second.id, epoch=1), False)
    assert caught.value.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    update = request(session_id=first.id, epoch=1)
    update.forgotten_topics_data = [ForgottenTopic(topic="t", partitions=[0, 1, 2])]
    sessions.begin(update, False)
    third, _ = sessions.begin(request(0, 1, 2, 3, 4), False)
    assert third.id != NO_SESSION


def test_a_session_that_grows_in_slices_may_not_grow_without_bounds(
    sessions: FetchSessionCache, loop: VirtualLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_cache, "PARTITION_COUNT_MAX", 100)
    session, _ = sessions.begin(request(0), False)
    more = request(*range(200), session_id=session.id, epoch=1)
    slices = Slices(VirtualClock(loop))
    with pytest.raises(KafkaError) as refused:
        loop.run_until_complete(sessions.begin_large(more, False, slices))
    assert refused.value.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert (len(sessions), len(session.partitions)) == (0, 0)


def test_a_session_that_is_closed_while_it_grows_is_unknown_from_then_on(
    sessions: FetchSessionCache, loop: VirtualLoop
) -> None:
    session, _ = sessions.begin(request(0), False)
    more = request(*range(40_000), session_id=session.id, epoch=1)
    growing = loop.create_task(
        sessions.begin_large(more, False, Slices(VirtualClock(loop)))  # Gives way in between.
    )
    loop.call_soon(sessions.begin, request(session_id=session.id, epoch=-1), False)
    with pytest.raises(KafkaError) as refused:
        loop.run_until_complete(growing)
    assert refused.value.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert not session.partitions


def of_replica(asked: FetchRequest) -> FetchRequest:
    asked.replica_state = ReplicaState(replica_id=2, replica_epoch=5)
    return asked


def test_a_replica_takes_the_place_of_a_consumer_and_keeps_it(
    sessions: FetchSessionCache, loop: VirtualLoop
) -> None:
    consumer, _ = sessions.begin(request(0), False)
    replica, _ = sessions.begin(of_replica(request(0)), False)
    assert (consumer.is_of_replica, replica.is_of_replica) == (False, True)
    another, _ = sessions.begin(of_replica(request(0)), False)
    assert another.id != NO_SESSION
    assert not consumer.partitions, "it gave way"
    for late in (request(0), of_replica(request(0))):
        session, _ = sessions.begin(late, False)
        assert session.id == NO_SESSION
    loop.pass_time(120)
    session, _ = sessions.begin(request(0), False)
    assert session.id != NO_SESSION, "a replica that is gone gives way in time"


def test_a_large_fetch_of_a_replica_is_one_of_a_replica(
    sessions: FetchSessionCache, loop: VirtualLoop
) -> None:
    asked = of_replica(request(*range(200)))
    slices = Slices(VirtualClock(loop))
    session, _ = loop.run_until_complete(sessions.begin_large(asked, False, slices))
    assert session.is_of_replica
    assert len(session.partitions) == 200
