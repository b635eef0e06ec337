"""Rankings, by hand."""

from __future__ import annotations

import json
from datetime import date

import pyarrow as pa

from ottla.pipeline.jobs.activity_top import Place, places, records

FIRST, SECOND = date(2026, 1, 1), date(2026, 1, 2)


def counts_of(*rows: tuple[date, str, str, int]) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else ([], [], [], [])
    types = (pa.date32(), pa.string(), pa.string(), pa.int64())
    arrays = [pa.array(list(one), kind) for one, kind in zip(columns, types, strict=True)]
    return pa.table(dict(zip(("day", "kind", "subject", "count"), arrays, strict=True)))


def test_the_most_come_first_and_equals_by_name() -> None:
    counts = counts_of(
        (SECOND, "page", "/b", 1),
        (FIRST, "search", "shoes", 9),
        (FIRST, "page", "/c", 2),
        (FIRST, "page", "/a", 2),
        (FIRST, "page", "/b", 7),
        (FIRST, "page", "/ä", 2),
    )

    assert list(places(counts.to_batches())) == [
        Place(FIRST, "page", 1, "/b", 7),
        Place(FIRST, "page", 2, "/a", 2),
        Place(FIRST, "page", 3, "/c", 2),
        Place(FIRST, "page", 4, "/ä", 2),
        Place(FIRST, "search", 1, "shoes", 9),
        Place(SECOND, "page", 1, "/b", 1),
    ]


def test_there_are_ten_places() -> None:
    counts = counts_of(*((FIRST, "page", f"/{letter}", 1) for letter in "lkjihgfedcba"))

    assert [place.subject for place in places(counts.to_batches())] == [
        f"/{letter}" for letter in "abcdefghij"
    ]


def test_counts_come_in_batches() -> None:
    counts = counts_of(*((FIRST, "page", f"/{letter}", 1) for letter in "lkjihgfedcba"))
    more = counts_of((SECOND, "page", "/a", 3), (FIRST, "page", "/m", 2))
    batches = [*counts.to_batches(max_chunksize=5), *more.to_batches()]

    found = list(places(batches))

    assert [place.subject for place in found] == [*(f"/{letter}" for letter in "mabcdefghi"), "/a"]
    assert [place.rank for place in found] == [*range(1, 11), 1]


def test_nothing_has_no_places() -> None:
    assert list(places([])) == []
    assert list(places(counts_of().to_batches())) == []
    assert list(records([])) == []


def test_a_record_has_the_whole_ranking() -> None:
    ranking = [
        Place(FIRST, "search", 1, "große schuhe", 9),
        Place(FIRST, "search", 2, "lamp", 2),
        Place(SECOND, "search", 1, "lamp", 1),
    ]

    found = {key: json.loads(value) for key, value in records(ranking)}

    assert found == {
        "2026-01-01 search": {
            "day": "2026-01-01",
            "kind": "search",
            "top": [{"subject": "große schuhe", "count": 9}, {"subject": "lamp", "count": 2}],
        },
        "2026-01-02 search": {
            "day": "2026-01-02",
            "kind": "search",
            "top": [{"subject": "lamp", "count": 1}],
        },
    }
