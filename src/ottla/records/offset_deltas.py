"""Whether the records of a batch are numbered as they should be: 0, 1, 2 and so on.

Every producer does so. A batch that has other numbers is stored with them where it is stored as it
came; where a topic has its records compressed in another way, they are numbered anew, as in Kafka.
"""

from __future__ import annotations

from ottla.kernel.workers import give_way
from ottla.records.errors import CorruptRecord
from ottla.records.record import read_varint

_SLICE = 2048
"""Records, about half a millisecond, until others go first."""


def are_numbered(data: bytes, record_count: int) -> bool:
    """Of so many records, whose lengths were checked (`lengths.py`). Raises CorruptRecord where one
    is no record inside. In a thread it gives way."""
    position = 0
    try:
        for begin in range(0, record_count, _SLICE):
            if begin:
                give_way()
            position = _walk(data, position, begin, min(begin + _SLICE, record_count))
            if position < 0:
                return False
    except IndexError:
        raise CorruptRecord(f"the last of {record_count} records is cut off") from None
    return True


def _walk(data: bytes, position: int, begin: int, end: int) -> int:
    """The position behind these records, or -1 if one of them has another number. Varints of one
    byte and of two are decoded inline: a call for each costs as much as all the rest."""
    for number in range(begin, end):
        size = data[position]
        position += 1
        if size >= 0x80:
            second = data[position]
            if second < 0x80:
                size = size & 0x7F | second << 7
                position += 1
            else:
                read, position = read_varint(data, position - 1)
                size = read << 1
        following = position + (size >> 1)
        position += 1  # attributes, of which none is defined
        while data[position] >= 0x80:  # the timestamp
            position += 1
        delta = data[position + 1]
        if delta >= 0x80:
            second = data[position + 2]
            if second < 0x80:
                delta = delta & 0x7F | second << 7
            else:
                read, position = read_varint(data, position + 1)
                delta = read << 1
        if delta != number << 1:
            return -1
        position = following
    return position
