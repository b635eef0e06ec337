from __future__ import annotations

from ottla.client.fetch_session import FetchSession, PartitionKey, forgotten_topics
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import TopicId
from ottla.wire.messages.fetch import FetchResponse

A, B = PartitionKey(TopicId(b"t" * 16), 0), PartitionKey(TopicId(b"t" * 16), 1)
C = PartitionKey(TopicId(b"u" * 16), 0)


def begun() -> FetchSession:
    """With A and B, which the broker knows."""
    session = FetchSession()
    session.put(A)
    session.put(B)
    assert session.request() == (0, 0, [A, B], [])
    session.answered(FetchResponse(session_id=7))
    return session


def test_a_request_names_only_what_has_changed() -> None:
    session = begun()
    assert session.request() == (7, 1, [], [])
    session.answered(FetchResponse(session_id=7))
    session.put(B)
    session.put(C)
    session.remove(A)
    assert len(session) == 2
    assert session.request() == (7, 2, [B, C], [A])


def test_what_is_forgotten_and_wanted_again_is_named_once() -> None:
    session = begun()
    session.remove(A)
    session.put(A)
    assert session.request() == (7, 1, [A], [])


def test_what_the_broker_never_knew_is_not_forgotten_there() -> None:
    session = begun()
    session.remove(C)
    assert session.request().forgotten == []


def test_without_a_session_every_request_is_a_full_one() -> None:
    session = begun()
    session.answered(FetchResponse(session_id=0))
    session.remove(B)
    assert session.request() == (0, 0, [A], [])


def test_a_session_that_the_broker_has_dropped_is_begun_anew() -> None:
    session = begun()
    session.request()
    session.answered(FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND))
    assert session.request() == (0, 0, [A, B], [])


def test_after_a_lost_connection_the_broker_may_let_go_of_the_session() -> None:
    session = begun()
    session.put(A)
    session.request()
    session.lost()
    assert session.request() == (7, 0, [A, B], [])
    session.answered(FetchResponse(session_id=8))
    assert session.request() == (8, 1, [], [])


def test_epochs_begin_again_at_one_when_they_are_used_up() -> None:
    session = begun()
    session._epoch = 0x7FFF_FFFF
    session.answered(FetchResponse(session_id=7))
    assert session.request().session_epoch == 1


def test_forgotten_partitions_are_listed_by_topic() -> None:
    topics = forgotten_topics([A, C, B])
    assert [(topic.topic_id, topic.partitions) for topic in topics] == [
        (A.topic_id, [0, 1]),
        (C.topic_id, [0]),
    ]
