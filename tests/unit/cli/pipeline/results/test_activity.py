from __future__ import annotations

from typing import Any

import pytest

from ottla.cli.pipeline.results.activity import found_in, is_empty, print_found

START = "2026-01-01T08:{:02}:00.000Z"


def traffic(minute: int, page_views: int) -> dict[str, Any]:
    return {
        "window": "minute",
        "start": START.format(minute),
        "page_views": page_views,
        "visitors": page_views // 2,
    }


VALUES: dict[str, list[dict[str, Any]]] = {
    "activity-traffic": [
        traffic(2, 40),
        traffic(0, 20),
        {**traffic(0, 1060), "window": "day", "start": "2026-01-01T00:00:00.000Z"},
    ],
    "activity-sessions": [
        {"user": "u", "start": START.format(0), "end": START.format(3), "actions": 5},
        {"user": "v", "start": START.format(0), "end": START.format(1), "actions": 2},
    ],
    "activity-top": [
        {
            "day": "2026-01-01",
            "kind": "page",
            "top": [{"subject": "/a", "count": 30}, {"subject": "/b", "count": 3}],
        }
    ],
}


def test_what_was_found() -> None:
    found = found_in(VALUES, "/no/lake")

    assert [minute["page_views"] for minute in found["minutes"]] == [20, 40]
    assert found["sessions"] == {"count": 2, "mean_s": 120.0, "mean_actions": 3.5}
    assert found["top"]["page"][0] == {"subject": "/a", "count": 30}
    assert not is_empty(found)
    assert is_empty(found_in({}, "/no/lake"))


def test_it_is_shown_as_tables_and_bars(capsys: pytest.CaptureFixture[str]) -> None:
    print_found(found_in(VALUES, "/no/lake"))

    assert capsys.readouterr().out == (
        "2026-01-01  1,060 page views of 530 visitors\n"
        "sessions    2, 2 min and 3.5 actions on average\n"
        "\n"
        "A MINUTE    NEWEST  HIGHEST  LAST 30 MINUTES\n"
        "page views      40       40  ▅▁█\n"
        "visitors        20       20  ▅▁█\n"
        "\n"
        "TOP PAGES  COUNT\n"
        "/a            30  ████████████████████\n"
        "/b             3  ██\n"
    )
