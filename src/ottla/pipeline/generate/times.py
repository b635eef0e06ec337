"""Points in time as text, in UTC, with no locale in it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def iso_of(time_ms: int) -> str:
    """
    >>> iso_of(1_767_225_600_007)
    '2026-01-01T00:00:00.007Z'
    """
    moment = _EPOCH + timedelta(milliseconds=time_ms)
    return moment.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def access_time_of(time_ms: int) -> str:
    """As nginx and Apache write it, which know no milliseconds.

    >>> access_time_of(1_767_225_600_007)
    '01/Jan/2026:00:00:00 +0000'
    """
    moment = _EPOCH + timedelta(milliseconds=time_ms)
    month = _MONTHS[moment.month - 1]
    return f"{moment.day:02}/{month}/{moment.year}:{moment:%H:%M:%S} +0000"
