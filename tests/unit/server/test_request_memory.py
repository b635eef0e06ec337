from __future__ import annotations

from ottla.server.request_memory import RequestMemory


def never() -> None:
    raise AssertionError("nobody had to wait")


def test_what_fits_is_let_in() -> None:
    memory = RequestMemory(100)
    assert memory.acquire("a", 60, never)
    assert memory.acquire("b", 40, never)


def test_what_does_not_fit_waits_for_what_is_released() -> None:
    memory = RequestMemory(100)
    granted: list[str] = []
    assert memory.acquire("a", 60, never)
    assert not memory.acquire("b", 50, lambda: granted.append("b"))
    assert memory.is_waiting("b")
    memory.release("a", 60)
    assert granted == ["b"]
    assert not memory.is_waiting("b")


def test_nobody_overtakes_one_that_waits() -> None:
    memory = RequestMemory(100)
    granted: list[str] = []
    memory.acquire("a", 60, never)
    memory.acquire("large", 90, lambda: granted.append("large"))
    assert not memory.acquire("small", 10, lambda: granted.append("small"))
    memory.release("a", 60)
    assert granted == ["large", "small"]


def test_one_that_gives_up_waiting_takes_nothing() -> None:
    memory = RequestMemory(100)
    granted: list[str] = []
    memory.acquire("a", 100, never)
    memory.acquire("b", 50, lambda: granted.append("b"))
    memory.release("b", 50)
    memory.release("a", 100)
    assert granted == []
    assert memory.acquire("c", 100, never)


def test_a_request_larger_than_the_whole_is_let_in_alone() -> None:
    memory = RequestMemory(100)
    assert memory.acquire("huge", 500, never)
    assert not memory.acquire("other", 1, lambda: None)
