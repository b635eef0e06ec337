from __future__ import annotations

import pytest

from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import TopicPartition
from ottla.records.builder import build_batch
from ottla.records.record import Record
from ottla.storage.replicated_batches import iter_runs

PARTITION = TopicPartition("t", 0)


def _batch(offset: int) -> bytearray:
    return build_batch([Record(offset, 1, None, b"v")])


def _runs(content: bytes, next_offset: int, max_bytes: int = 1 << 20) -> list[list[int]]:
    found = iter_runs(
        memoryview(content), next_offset, PARTITION, lambda _, size_bytes: size_bytes > max_bytes
    )
    return [[header.base_offset for header in headers] for _, headers in found]


def test_batches_come_in_order_with_gaps_and_without_a_cut_end() -> None:
    content = bytes(_batch(5) + _batch(9) + _batch(10)[:-1])
    assert _runs(content, 4) == [[5, 9]]


def test_what_is_too_large_for_a_segment_is_parted_between_batches() -> None:
    content = bytes(_batch(5) + _batch(6) + _batch(7))
    assert _runs(content, 5, max_bytes=2 * len(_batch(5))) == [[5, 6], [7]]
    assert _runs(content, 5, max_bytes=1) == [[5], [6], [7]]
    assert _runs(b"", 5) == []


def test_a_batch_that_is_there_already_is_refused() -> None:
    with pytest.raises(KafkaError, match="Offset 5 for t-0 is not after its end 6"):
        _runs(bytes(_batch(5)), 6)


def test_a_damaged_batch_is_refused() -> None:
    content = _batch(5)
    content[-1] ^= 1
    with pytest.raises(KafkaError) as caught:
        _runs(bytes(content), 5)
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
