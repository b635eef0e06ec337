"""To which partition a record goes: as Kafka's own producers decide, for many at a time.

A key goes where its hash says, so that all records with it are in one partition, whoever writes
them. Records without a key may go anywhere; those that come together go together, because large
batches are cheaper.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Words = npt.NDArray[np.uint32]

_SEED = np.uint32(0x9747B28C)
_M = np.uint32(0x5BD1E995)
_WORD_BYTES = 4
_POSITIVE = np.uint32(0x7FFFFFFF)

TOGETHER = 10_000
"""Rows without a key that go to one partition, before it is the turn of the next."""


def murmur2(keys: pa.BinaryArray) -> Words:
    """The hash of each, as Kafka computes it. Of null it is something, and means nothing."""
    count = len(keys)
    if count == 0:
        return np.zeros(0, np.uint32)
    _, offsets, data = keys.buffers()
    bounds = np.frombuffer(offsets, np.int32)[keys.offset : keys.offset + count + 1].astype(
        np.int64
    )
    starts, lengths = bounds[:-1], np.diff(bounds)
    # Three bytes behind the last one, so that four can be read at any of them.
    padded = np.zeros(int(bounds[-1]) + _WORD_BYTES, np.uint8)
    padded[: bounds[-1]] = np.frombuffer(data or b"", np.uint8)[: bounds[-1]]
    at_each_byte = np.ndarray(len(padded) - 3, "<u4", padded, strides=(1,))
    hashes = _SEED ^ lengths.astype(np.uint32)
    word_counts = lengths // _WORD_BYTES
    everywhere = slice(None)
    for index in range(int(word_counts.max())):
        is_left = word_counts > index
        # Keys are mostly of one length: then there is nothing to pick.
        left = everywhere if is_left.all() else np.flatnonzero(is_left)
        words = at_each_byte[starts[left] + _WORD_BYTES * index] * _M
        words ^= words >> np.uint32(24)
        hashes[left] = (hashes[left] * _M) ^ (words * _M)
    tails = lengths % _WORD_BYTES
    masks = np.array([0, 0xFF, 0xFFFF, 0xFFFFFF], np.uint32)
    rest = at_each_byte[starts + _WORD_BYTES * word_counts] & masks[tails]
    hashes = np.where(tails > 0, (hashes ^ rest) * _M, hashes)
    hashes ^= hashes >> np.uint32(13)
    hashes *= _M
    return hashes ^ (hashes >> np.uint32(15))


def partitions_of_keys(keys: pa.BinaryArray, partition_count: int) -> npt.NDArray[np.int32]:
    """Of keys that are not null."""
    positive = murmur2(keys) & _POSITIVE
    return (positive % np.uint32(partition_count)).astype(np.int32)


class Partitioner:
    """Of one topic, for one who writes to it."""

    def __init__(self, partition_count: int, *, first: int = 0) -> None:
        """`first` is where records without a key begin: another for each who writes."""
        self._partition_count = partition_count
        self._next = first % partition_count

    def partitions(self, keys: pa.BinaryArray | None, row_count: int) -> npt.NDArray[np.int32]:
        """Of the rows of one batch. Those without a key go to one partition, `TOGETHER` of them,
        then it is the turn of the next."""
        if keys is None or keys.null_count == row_count:
            return self._turns(row_count)
        found = partitions_of_keys(keys, self._partition_count)
        if keys.null_count:
            found[~keys.is_valid().to_numpy(zero_copy_only=False)] = self._turns(keys.null_count)
        return found

    def _turns(self, row_count: int) -> npt.NDArray[np.int32]:
        turns = self._next + np.arange(row_count) // TOGETHER
        self._next = (int(turns[-1]) + 1) % self._partition_count if row_count else self._next
        return (turns % self._partition_count).astype(np.int32)
