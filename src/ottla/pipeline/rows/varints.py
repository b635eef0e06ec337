"""Zigzag varints, as records have them, of many records at a time."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]

VARINT_BYTES_MAX = 5
VARLONG_BYTES_MAX = 10

_ONE = np.uint64(1)


class BadVarint(ValueError):
    """More bytes than a number of its width can have."""


def read_varints(
    data: Bytes, positions: Ints, bytes_max: int = VARINT_BYTES_MAX
) -> tuple[Ints, Ints]:
    """The numbers at these positions, and the positions behind them. A position beyond the data
    reads its last byte: whoever asks checks in the end where it has come to."""
    raw, behind = _read_unsigned(data, positions, bytes_max)
    if raw.dtype == np.uint8:  # one byte each, as most are
        return _UNZIGZAGGED[raw], behind
    if bytes_max == VARINT_BYTES_MAX:
        raw &= np.uint64(0xFFFF_FFFF)
    return (raw >> _ONE).view(np.int64) ^ -(raw & _ONE).view(np.int64), behind


def _read_unsigned(
    data: Bytes, positions: Ints, bytes_max: int
) -> tuple[npt.NDArray[np.unsignedinteger], Ints]:
    byte = data.take(positions, mode="clip")
    behind = positions + 1
    is_more = byte >= 0x80
    more_count = np.count_nonzero(is_more)
    if more_count == 0:
        return byte, behind
    raw = (byte & 0x7F).astype(np.uint64)
    selected: Ints | None = None  # all of them
    for shift in range(7, 7 * bytes_max, 7):
        if selected is None and more_count == len(raw):
            byte = data.take(behind, mode="clip")
            raw |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
            behind += 1
        else:
            selected = np.flatnonzero(is_more) if selected is None else selected[is_more]
            at = behind[selected]
            byte = data.take(at, mode="clip")
            raw[selected] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
            behind[selected] = at + 1
        is_more = byte >= 0x80
        more_count = np.count_nonzero(is_more)
        if more_count == 0:
            return raw, behind
    raise BadVarint(f"a varint has more than {bytes_max} bytes")


def varint_sizes(raw: npt.NDArray[np.uint64]) -> Ints:
    """How many bytes each takes."""
    sizes = np.ones(len(raw), np.int64)
    limit = 0x80
    largest = int(raw.max(initial=0))
    while largest >= limit:
        sizes += raw >= np.uint64(limit)
        limit <<= 7
    return sizes


def zigzag(numbers: Ints) -> npt.NDArray[np.uint64]:
    return ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)


def write_varints(out: Bytes, positions: Ints, raw: npt.NDArray[np.uint64], sizes: Ints) -> None:
    """Writes each at its position."""
    longest = int(sizes.max(initial=0))
    if longest == 0:
        return
    shortest = int(sizes.min())
    for index in range(longest):
        if index < shortest:
            at, rest, size = positions, raw, sizes
        else:
            selected = sizes > index
            at, rest, size = positions[selected], raw[selected], sizes[selected]
        byte = (rest >> np.uint64(7 * index)).astype(np.uint8) & 0x7F
        byte |= (size > index + 1).view(np.uint8) << 7
        out[at + index] = byte


_UNZIGZAGGED = np.array([(raw >> 1) ^ -(raw & 1) for raw in range(0x80)], np.int64)
