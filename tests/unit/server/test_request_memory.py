from __future__ import annotations

from ottla.server.request_memory import RequestMemory


class Room:
    """A memory, and who was let in after waiting."""

    def __init__(self, byte_count_max: int = 100) -> None:
        self.used_up_count = 0
        self.granted: list[str] = []
        self.memory = RequestMemory(byte_count_max, self._used_up)

    def _used_up(self) -> None:
        self.used_up_count += 1

    def hold(self, owner: str, byte_count: int) -> bool:
        return self.memory.hold(owner, byte_count, lambda: self.granted.append(owner))


def test_what_fits_is_let_in() -> None:
    room = Room()
    assert room.hold("a", 60)
    assert room.hold("b", 40)
    assert room.granted == []
    assert room.used_up_count == 0


def test_what_does_not_fit_waits_for_what_is_released() -> None:
    room = Room()
    assert room.hold("a", 60)
    assert not room.hold("b", 50)
    assert room.memory.is_waiting("b")
    assert room.used_up_count == 1
    room.memory.release("a")
    assert room.granted == ["b"]
    assert not room.memory.is_used_up


def test_one_grows_within_what_is_there() -> None:
    room = Room()
    assert room.hold("a", 10)
    assert room.hold("a", 20)
    assert room.hold("b", 80), "what it grew to is counted once"


def test_nobody_overtakes_one_that_waits() -> None:
    room = Room()
    room.hold("a", 60)
    room.hold("large", 90)
    assert not room.hold("small", 10)
    room.memory.release("a")
    assert room.granted == ["large", "small"]


def test_one_that_gives_up_waiting_takes_nothing() -> None:
    room = Room()
    room.hold("a", 100)
    room.hold("b", 50)
    room.memory.release("b")
    room.memory.release("a")
    assert room.granted == []
    assert room.hold("c", 100)


def test_a_request_larger_than_the_whole_is_let_in_alone() -> None:
    room = Room()
    assert room.hold("huge", 500)
    assert not room.hold("other", 1)
    room.memory.release("huge")
    assert room.granted == ["other"]


def test_when_all_wait_the_first_that_has_begun_goes_on() -> None:
    room = Room()
    room.hold("a", 50)
    room.hold("b", 50)
    assert not room.hold("new", 10)
    assert not room.hold("b", 100)
    assert room.granted == []
    # Now nobody could finish any more.
    assert not room.hold("a", 100)
    assert room.granted == ["b"]
    room.memory.release("b")
    assert room.granted == ["b", "new"]
    room.memory.release("new")
    assert room.granted == ["b", "new", "a"]
