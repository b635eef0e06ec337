from __future__ import annotations

import pytest

from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.replication.uncommitted import STEPS_MAX, Uncommitted


def test_steps_are_committed_in_the_order_of_their_places() -> None:
    ends: list[int] = []
    heard: list[str] = []

    def commit(end_offset: int, byte_count: int) -> None:
        ends.append(end_offset)
        assert uncommitted.commit(end_offset) == 10 * end_offset
        uncommitted.settle(end_offset)

    uncommitted = Uncommitted(commit)
    first = uncommitted.begin(1, 10)
    uncommitted.when_committed(lambda error: heard.append("first"))
    second = uncommitted.begin(3, 30)
    uncommitted.when_committed(lambda error: heard.append("second"))
    uncommitted.finish(second)
    assert (ends, heard) == ([], [])
    uncommitted.finish(first)
    assert (ends, heard) == ([1, 3], ["first", "second"])
    uncommitted.when_committed(lambda error: heard.append("at once"))
    assert heard[-1] == "at once"


def test_steps_share_their_memory_while_the_high_watermark_stands_still() -> None:
    """With acks=1 a producer goes on for days where too few replicas are in sync."""
    uncommitted = Uncommitted(lambda end, byte_count: None)
    heard: list[int] = []
    count = 3 * STEPS_MAX
    for end_offset in range(1, count + 1):
        uncommitted.finish(uncommitted.begin(end_offset, 10))
        uncommitted.when_committed(lambda error, end=end_offset: heard.append(end))  # type: ignore[misc]
    assert len(uncommitted.waiting) == STEPS_MAX
    middle = count // 2
    byte_count = uncommitted.commit(middle)
    uncommitted.settle(middle)
    assert heard == list(range(1, middle + 1))
    assert not uncommitted.is_empty
    assert byte_count + uncommitted.commit(count) == 10 * count
    assert uncommitted.is_empty


def test_a_failure_is_told_to_all_who_wait_and_ends_all_steps() -> None:
    heard: list[KafkaError | None] = []
    uncommitted = Uncommitted(lambda end, byte_count: None)
    step = uncommitted.begin(1, 10)
    uncommitted.when_committed(heard.append)
    error = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
    uncommitted.fail(error)
    uncommitted.finish(step)
    assert heard == [error]
    uncommitted.when_committed(heard.append)
    assert heard == [error, error]
    assert not uncommitted.writing
    assert not uncommitted.is_empty, "it was lost, not committed"


@pytest.mark.parametrize("error", [None, KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)])
def test_one_who_raises_holds_up_nobody(
    error: KafkaError | None, caplog: pytest.LogCaptureFixture
) -> None:
    def stumble(_: KafkaError | None) -> None:
        raise ValueError("a bug of ours")

    heard: list[KafkaError | None] = []
    uncommitted = Uncommitted(lambda end, byte_count: None)
    step = uncommitted.begin(1, 10)
    uncommitted.when_committed(stumble)
    uncommitted.when_committed(heard.append)
    if error is None:
        uncommitted.finish(step)
        assert uncommitted.commit(1) == 10
        uncommitted.settle(1)
    else:
        uncommitted.fail(error)
    assert heard == [error]
    assert "a bug of ours" in caplog.text


def test_what_is_written_waits_for_the_high_watermark() -> None:
    heard: list[str] = []
    uncommitted = Uncommitted(
        lambda end, byte_count: heard.append(f"end {end}, {byte_count} bytes")
    )
    first, second = uncommitted.begin(1, 10), uncommitted.begin(2, 20)
    uncommitted.when_written(lambda error: heard.append("written"))
    uncommitted.when_committed(lambda error: heard.append("committed"))
    uncommitted.finish(first)
    assert heard == ["end 1, 10 bytes"]
    uncommitted.finish(second)
    assert heard == ["end 1, 10 bytes", "end 2, 20 bytes", "written"]
    assert not uncommitted.is_empty
    assert uncommitted.commit(1) == 10
    uncommitted.settle(1)
    assert heard == ["end 1, 10 bytes", "end 2, 20 bytes", "written"]
    assert uncommitted.commit(2) == 20
    uncommitted.settle(2)
    assert heard == ["end 1, 10 bytes", "end 2, 20 bytes", "written", "committed"]
    assert uncommitted.is_empty


def test_who_gives_up_is_not_called_back_and_leaves_nothing_behind() -> None:
    heard: list[str] = []
    uncommitted = Uncommitted(lambda end, byte_count: None)
    uncommitted.finish(uncommitted.begin(1, 10))
    early = uncommitted.when_committed(lambda error: heard.append("early"))
    uncommitted.when_committed(lambda error: heard.append("patient"))
    uncommitted.give_up(early)
    assert uncommitted.parked_count == 1
    uncommitted.commit(1)
    uncommitted.settle(1)
    assert heard == ["patient"]
    uncommitted.give_up(early)
    uncommitted.give_up(uncommitted.when_committed(lambda error: heard.append("at once")))
    assert heard == ["patient", "at once"]
    assert uncommitted.parked_count == 0
