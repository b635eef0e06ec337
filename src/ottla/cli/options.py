"""Values that several commands take on their command line."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

import click


def pairs(texts: Iterable[str], option: str) -> dict[str, str]:
    """KEY=VALUE, each key once."""
    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise click.BadParameter(f"{text!r} is no KEY=VALUE", param_hint=f"'{option}'")
        if key.strip() in found:
            raise click.BadParameter(f"{key.strip()!r} is given twice", param_hint=f"'{option}'")
        found[key.strip()] = value
    return found


def timestamp_ms(text: str, option: str = "--from-timestamp") -> int:
    """Milliseconds since 1970, or an ISO 8601 date or time; local time when it names no zone."""
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise click.BadParameter(
            f"{text!r} is neither milliseconds nor ISO 8601 (such as 2026-01-31T12:00:00Z)",
            param_hint=f"'{option}'",
        ) from error
    return round(moment.timestamp() * 1000)


def iso_of(timestamp: int) -> str:
    moment = datetime.fromtimestamp(timestamp / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


json_option = click.option("--json", "as_json", is_flag=True, help="JSON, for programs.")
