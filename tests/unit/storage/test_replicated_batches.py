from __future__ import annotations

import pytest

from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.records.builder import build_batch
from ottla.records.record import Record
from ottla.storage.replicated_batches import RUN_BATCH_COUNT_MAX, read_run
from ottla.storage.roll_limits import RollLimits


def _batch(offset: int) -> bytearray:
    return build_batch([Record(offset, 1, None, b"v")])


def _limits(size_bytes: int = 1 << 20) -> RollLimits:
    limits = RollLimits.__new__(RollLimits)
    limits.size_bytes = size_bytes
    limits.timestamp = limits.offset = limits.now_ms = 1 << 62
    return limits


def _runs(content: bytes, next_offset: int, max_bytes: int = 1 << 20) -> list[list[int]]:
    """Each for a segment that is empty."""
    found: list[list[int]] = []
    rest = memoryview(content)
    while (run := read_run(rest, next_offset, 0, _limits(max_bytes), 0)).headers:
        found.append([header.base_offset for header in run.headers])
        rest = rest[run.size_bytes :]
        next_offset = run.headers[-1].next_offset
    return found


def test_batches_come_in_order_with_gaps_and_without_a_cut_end() -> None:
    content = bytes(_batch(5) + _batch(9) + _batch(10)[:-1])
    assert _runs(content, 4) == [[5, 9]]


def test_what_is_too_large_for_a_segment_is_parted_between_batches() -> None:
    content = bytes(_batch(5) + _batch(6) + _batch(7))
    assert _runs(content, 5, max_bytes=2 * len(_batch(5))) == [[5, 6], [7]]
    assert _runs(content, 5, max_bytes=1) == [[5], [6], [7]]
    assert _runs(b"", 5) == []


def test_a_batch_that_is_there_already_is_refused() -> None:
    with pytest.raises(KafkaError, match="Offset 5 is not after the end of the log, 6"):
        _runs(bytes(_batch(5)), 6)


def test_a_damaged_batch_is_refused() -> None:
    content = _batch(5)
    content[-1] ^= 1
    with pytest.raises(KafkaError) as caught:
        _runs(bytes(content), 5)
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize(
    ("name", "limit"), [("size_bytes", 400), ("timestamp", 0), ("offset", 4), ("now_ms", -1)]
)
def test_the_first_is_taken_though_it_needs_another_segment(name: str, limit: int) -> None:
    content = memoryview(bytes(_batch(5) + _batch(6)))
    segment_bytes = 350
    run = read_run(content, 5, segment_bytes, _limits(), 0)
    assert (len(run.headers), run.must_roll) == (2, False)
    limits = _limits()
    setattr(limits, name, limit)
    run = read_run(content, 5, segment_bytes, limits, 0)
    assert (len(run.headers), run.must_roll) == (1, True)


def test_many_small_batches_are_not_taken_at_once() -> None:
    content = b"".join(_batch(offset) for offset in range(RUN_BATCH_COUNT_MAX + 1))
    assert [len(run) for run in _runs(content, 0)] == [RUN_BATCH_COUNT_MAX, 1]


@pytest.mark.parametrize("position", [8, 16])
def test_bytes_that_are_no_batch_are_refused(position: int) -> None:
    content = _batch(5)
    content[position] = 0xFF  # Of its length, or its magic.
    with pytest.raises(KafkaError) as caught:
        _runs(bytes(content), 5)
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
