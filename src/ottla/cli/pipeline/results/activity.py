"""What the activity pipeline has found out: traffic, sessions, and what is looked at most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ottla.cli.pipeline.results.activity_results import TOPICS, Results
from ottla.cli.pipeline.results.minutes import MINUTES_SHOWN, last_minutes
from ottla.cli.sparkline import sparkline
from ottla.cli.tables import Column, duration_text, print_facts, print_table

Json = dict[str, Any]

_BAR_MAX = 20


def found_in(values: Mapping[str, Sequence[Json]], lake: str) -> Json:
    """The lake is not asked: topics have all of it."""
    results = Results()
    for topic in TOPICS:
        for value in values.get(topic, ()):
            results.take(topic, value)
    count = results.sessions
    return {
        "minutes": [{"start": start, **traffic._asdict()} for start, traffic in results.in_order()],
        "days": [
            {"start": start, **traffic._asdict()} for start, traffic in sorted(results.days.items())
        ],
        "sessions": {
            "count": count,
            "mean_s": results.session_s / count if count else None,
            "mean_actions": results.session_actions / count if count else None,
        },
        "top": {
            kind: [{"subject": name, "count": times} for name, times in results.ranking(kind)]
            for kind in ("page", "search")
        },
    }


def is_empty(found: Json) -> bool:
    return not found["minutes"] and not found["days"] and not found["sessions"]["count"]


def print_found(found: Json) -> None:
    facts = []
    if found["days"]:
        day = found["days"][-1]
        counts = f"{day['page_views']:,} page views of {day['visitors']:,} visitors"
        facts.append((day["start"][:10], counts))
    sessions = found["sessions"]
    if sessions["count"]:
        length = duration_text(round(sessions["mean_s"] * 1000))
        mean = f"{length} and {sessions['mean_actions']:.1f} actions on average"
        facts.append(("sessions", f"{sessions['count']:,}, {mean}"))
    if facts:
        print_facts(facts)
    if found["minutes"]:
        print()
        _print_minutes(found["minutes"])
    for kind, title in (("page", "TOP PAGES"), ("search", "TOP SEARCHES")):
        if found["top"][kind]:
            print()
            _print_ranking(title, found["top"][kind])


def _print_minutes(minutes: Sequence[Json]) -> None:
    columns = [
        Column("A MINUTE"),
        Column("NEWEST", is_number=True),
        Column("HIGHEST", is_number=True),
        Column(f"LAST {MINUTES_SHOWN} MINUTES", rank=1, is_whole=True),
    ]
    rows = []
    for name, key in (("page views", "page_views"), ("visitors", "visitors")):
        shown = last_minutes({minute["start"]: minute[key] for minute in minutes})
        rows.append([name, f"{shown[-1]:,}", f"{max(shown):,}", sparkline(shown)])
    print_table(columns, rows)


def _print_ranking(title: str, places: Sequence[Json]) -> None:
    columns = [Column(title), Column("COUNT", is_number=True), Column("", rank=1, is_whole=True)]
    highest = max(place["count"] for place in places)
    rows = [
        [
            place["subject"],
            f"{place['count']:,}",
            "█" * max(1, round(_BAR_MAX * place["count"] / highest)),
        ]
        for place in places
    ]
    print_table(columns, rows)
