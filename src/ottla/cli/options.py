"""Values that several commands take on their command line."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import click

_INT64_MAX = 2**63 - 1
_ISO_DURATION = re.compile(
    r"P(?:(?P<weeks>\d+)W)?(?:(?P<days>\d+)D)?"
    r"(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?"
)
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9}
_SHORT_DURATION = re.compile(
    r"(?:(?P<weeks>\d+)w)?(?:(?P<days>\d+)d)?"
    r"(?:(?P<hours>\d+)h)?(?:(?P<minutes>\d+)m)?(?:(?P<seconds>\d+(?:\.\d+)?)s)?"
)


def pairs(texts: Iterable[str], option: str) -> dict[str, str]:
    """KEY=VALUE, each key once."""
    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise click.BadParameter(f"{text!r} is not KEY=VALUE", param_hint=f"'{option}'")
        if key.strip() in found:
            raise click.BadParameter(f"{key.strip()!r} is given twice", param_hint=f"'{option}'")
        found[key.strip()] = value
    return found


def timestamp_ms(text: str, option: str = "--from-timestamp") -> int:
    """Milliseconds since 1970, or an ISO 8601 date or time; local time when it names no zone."""
    if text.isascii() and text.isdigit() and int(text) <= _INT64_MAX:
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise click.BadParameter(
            f"{text!r} is neither milliseconds nor ISO 8601 (such as 2026-01-31T12:00:00Z)",
            param_hint=f"'{option}'",
        ) from error
    # Before 1970 is no time for Kafka: negative numbers mean other things to it.
    return max(0, round(moment.timestamp() * 1000))


def duration_ms(text: str, option: str) -> int:
    """ISO 8601, as Kafka's tool takes it (P7D, PT2H30M), or in short: 7d, 2h30m, 90s.

    >>> duration_ms("PT2H30M", "--by-duration"), duration_ms("2h30m", "--by-duration")
    (9000000, 9000000)
    """
    match = _ISO_DURATION.fullmatch(text) or _SHORT_DURATION.fullmatch(text)
    parts = {} if match is None else {k: float(v) for k, v in match.groupdict().items() if v}
    if not parts:
        raise click.BadParameter(
            f"{text!r} is not a duration such as P7D, PT2H30M, 7d or 2h30m",
            param_hint=f"'{option}'",
        )
    try:
        return round(timedelta(**parts).total_seconds() * 1000)
    except OverflowError as error:
        raise click.BadParameter(f"{text!r} is too long", param_hint=f"'{option}'") from error


def bytes_of(text: str, option: str) -> int:
    """A number of bytes, in decimal units if it names one.

    >>> bytes_of("10MB", "--throttle"), bytes_of("500 kB/s", "--throttle")
    (10000000, 500000)
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?) ?([kKMG]?)B?(?:/s)?", text)
    size_bytes = 0
    if match is not None:
        size_bytes = round(float(match[1]) * _UNITS[match[2].lower()])
    if size_bytes < 1:
        raise click.BadParameter(
            f"{text!r} is not a number of bytes such as 1000000, 500kB or 10MB",
            param_hint=f"'{option}'",
        )
    return size_bytes


def iso_of(timestamp: int) -> str:
    moment = datetime.fromtimestamp(timestamp / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


json_option = click.option("--json", "as_json", is_flag=True, help="JSON, for programs.")
