"""Whether the bytes of a batch are as many records as its header counts.

Readers find a record by the length of the one before it: where a length leads astray, every
consumer of the partition stops. So the lengths are walked before a batch is stored. What is inside
of a record is not looked at: that would take twice as long again (measured for records of 100
bytes: 0.13 µs each for the lengths, 0.03 µs where they are alike, 0.27 µs with their timestamps
and offsets, 1.2 µs to read them whole), and a record that is wrong inside is wrong for its readers
alone.
"""

from __future__ import annotations

from ottla.kernel.workers import give_way
from ottla.records.errors import CorruptRecord
from ottla.records.record import RECORD_BYTES_MIN, read_varint

_SIZE_MIN = (RECORD_BYTES_MIN - 1) << 1
"""Of what follows a length, as the bytes have it: twice."""

_SLICE = 4096
"""Records, about half a millisecond, until others go first."""

_RUN = 64
"""Records that are first taken to be of one length, as they often are. Where they are not, that was
looked at in vain: a twentieth of the time that they take."""


def check_lengths(data: bytes, record_count: int) -> None:
    """Raises CorruptRecord unless the data is just so many records. In a thread it gives way."""
    position = 0
    try:
        if record_count < _RUN:
            position = _walk_each(data, 0, record_count)
        else:
            for begin in range(0, record_count, _SLICE):
                if begin:
                    give_way()
                position = _walk(data, position, min(_SLICE, record_count - begin))
    except IndexError:
        raise CorruptRecord(
            f"{len(data)} bytes end before the last of {record_count} records"
        ) from None
    if position != len(data):
        raise CorruptRecord(f"{record_count} records end {position - len(data)} bytes off")


def _walk(data: bytes, position: int, count: int) -> int:
    """The position behind so many records."""
    while count >= _RUN:
        position = _run_end(data, position) or _walk_each(data, position, _RUN)
        count -= _RUN
    return _walk_each(data, position, count)


def _run_end(data: bytes, position: int) -> int:
    """The position behind `_RUN` records of one length, which are looked at together: then a record
    takes a tenth of the time. 0 where they are not alike, or the length is not a usual one."""
    first = data[position : position + 2]
    size = first[0]
    stride = 1
    if size >= 0x80:
        size = size & 0x7F | first[1] << 7
        stride = 2
    if size & 1 or not _SIZE_MIN <= size < 1 << 14:
        return 0
    stride += size >> 1
    end = position + stride * _RUN
    if data[position:end:stride] != first[:1] * _RUN:
        return 0
    if first[0] >= 0x80 and data[position + 1 : end : stride] != first[1:] * _RUN:
        return 0
    return end


def _walk_each(data: bytes, position: int, count: int) -> int:
    """The usual lengths, of one byte and of two, are decoded inline: a call for each would cost
    more than all the rest."""
    for _ in range(count):
        size = data[position]
        if size < 0x80:
            position += 1
        else:
            second = data[position + 1]
            if second < 0x80:
                size = size & 0x7F | second << 7
                position += 2
            else:
                read, position = read_varint(data, position)
                size = read << 1
        if size & 1 or size < _SIZE_MIN:
            raise CorruptRecord(f"a record claims {(size >> 1) ^ -(size & 1)} bytes")
        position += size >> 1
    return position
