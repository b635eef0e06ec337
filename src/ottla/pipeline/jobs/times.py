"""Points in time, as events tell them. Plain Python, no Spark."""

from __future__ import annotations

from datetime import UTC, datetime

SPARK_ISO = "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'"
"""As Spark writes times into JSON, where its session's zone is UTC."""

FROM_THE_FUTURE = "its time is more than a day after the record's timestamp"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY_US = 86_400_000_000
_MIN_US = -62_135_596_800_000_000
_MAX_US = 253_402_300_799_999_999


def time_us_of(text: str) -> int:
    """Microseconds since 1970 of an ISO 8601 time; more digits of a second are cut off. Raises
    ValueError with a text for the dead letters: a time without a zone could be any.

    >>> time_us_of("2026-01-01T01:00:00.0000019+01:00")
    1767225600000001
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"no time: {text[:64]}") from None
    if moment.tzinfo is None:
        raise ValueError(f"no zone in the time: {text[:64]}")
    since = moment - _EPOCH
    time_us = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    # A zone can move the first and the last day of the calendar out of it.
    if not _MIN_US <= time_us <= _MAX_US:
        raise ValueError(f"no time: {text}")
    return time_us


def problem_ahead(time_us: int, timestamp_us: int | None) -> str | None:
    """What is wrong with an event from the future. One of them would move the watermark there, and
    all events of others would be late until then. Brokers take no timestamp that is more than an
    hour ahead of their clock, so that of the record can be trusted as a bound. A negative one says
    that there is none."""
    if timestamp_us is None or timestamp_us < 0 or time_us - timestamp_us <= _DAY_US:
        return None
    return FROM_THE_FUTURE
