from __future__ import annotations

import pytest

from ottla.coordinators.result import Deferred, Result


def test_who_listens_first_hears_when_it_is_resolved() -> None:
    deferred: Deferred[str] = Deferred()
    heard: list[str] = []
    deferred.on_resolved(heard.append)
    assert (deferred.is_resolved, heard) == (False, [])

    deferred.resolve("joined")

    assert (deferred.is_resolved, heard) == (True, ["joined"])
    assert deferred.value == "joined"


def test_who_listens_later_hears_at_once() -> None:
    deferred: Deferred[str] = Deferred()
    deferred.resolve("joined")
    heard: list[str] = []

    deferred.on_resolved(heard.append)

    assert heard == ["joined"]


def test_none_is_a_response_too() -> None:
    deferred: Deferred[None] = Deferred()
    heard: list[None] = []
    deferred.on_resolved(heard.append)

    deferred.resolve(None)

    assert deferred.is_resolved
    assert heard == [None]


def test_a_request_is_answered_once() -> None:
    deferred: Deferred[int] = Deferred()
    deferred.resolve(1)

    with pytest.raises(AssertionError, match="answered once"):
        deferred.resolve(2)

    assert deferred.value == 1


def test_there_is_no_value_before() -> None:
    deferred: Deferred[int] = Deferred()

    with pytest.raises(AssertionError, match="not come yet"):
        _ = deferred.value


def test_a_result_needs_no_records() -> None:
    result = Result("pong")

    assert result.response == "pong"
    assert list(result.records) == []
    assert result.on_committed is None
    assert result.on_failed is None
