"""What the logs pipeline has found out: how many lines of each service are errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ottla.cli.pipeline.results.minutes import MINUTES_SHOWN, last_minutes
from ottla.cli.sparkline import sparkline
from ottla.cli.tables import Column, print_table

Json = dict[str, Any]

(RATES,) = TOPICS = ("logs-error-rates",)

_COLUMNS = [
    Column("SERVICE"),
    Column("LINES", is_number=True, rank=2),
    Column("ERRORS", is_number=True, rank=3),
    Column("RATE", is_number=True),
    Column(f"ERRORS IN THE LAST {MINUTES_SHOWN} MINUTES", rank=1, is_whole=True),
]


def found_in(values: Mapping[str, Sequence[Json]], lake: str) -> Json:
    """Services, those with most errors by line first. The lake is not asked: the topic has all."""
    services: dict[str, list[Json]] = {}
    for value in values.get(RATES, ()):
        services.setdefault(value["service"], []).append(value)
    found = []
    for service, minutes in services.items():
        lines = sum(minute["lines"] for minute in minutes)
        errors = sum(minute["errors"] for minute in minutes)
        kept = [
            {key: minute[key] for key in ("minute", "lines", "errors", "rate")}
            for minute in sorted(minutes, key=lambda minute: str(minute["minute"]))
        ]
        rate = errors / lines if lines else 0.0
        found.append(
            {"service": service, "lines": lines, "errors": errors, "rate": rate, "minutes": kept}
        )
    return {"services": sorted(found, key=lambda one: (-one["rate"], one["service"]))}


def is_empty(found: Json) -> bool:
    return not found["services"]


def print_found(found: Json) -> None:
    # All end with the same minute, so that what stands below one another happened at once.
    newest = max(one["minutes"][-1]["minute"] for one in found["services"])
    rows = []
    for one in found["services"]:
        errors = {minute["minute"]: minute["errors"] for minute in one["minutes"]}
        errors.setdefault(newest, 0)
        rows.append(
            [
                one["service"],
                f"{one['lines']:,}",
                f"{one['errors']:,}",
                f"{one['rate']:.1%}",
                sparkline(last_minutes(errors)).rjust(MINUTES_SHOWN),
            ]
        )
    print_table(_COLUMNS, rows)
