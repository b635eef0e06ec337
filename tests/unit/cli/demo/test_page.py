"""The page of plots."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from ottla.cli.demo.history import Rate
from ottla.cli.demo.page import Run, page
from ottla.cli.demo.results import SESSIONS, TOP, TRAFFIC, Results

START = "2026-01-01T08:{:02}:00.000Z"


def some_results() -> Results:
    results = Results()
    for minute in range(5):
        traffic = {"start": START.format(minute), "page_views": 600 + minute, "visitors": 300}
        results.take(TRAFFIC, {"window": "minute", **traffic})
    day = {"window": "day", "start": "2026-01-01T00:00:00.000Z", "page_views": 3010}
    results.take(TRAFFIC, {**day, "visitors": 1234})
    for end in (1, 3, 40):
        results.take(SESSIONS, {"start": START.format(0), "end": START.format(end), "actions": 6})
    for kind, subject in (("page", "/<b>"), ("search", "red & blue")):
        top = [{"subject": subject, "count": 7}]
        results.take(TOP, {"day": "2026-01-01", "kind": kind, "top": top})
    return results


class Outline(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.outside: list[str] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.outside += [value or "" for name, value in attrs if name in ("src", "href")]

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_it_has_all_plots_and_needs_nothing_else() -> None:
    run = Run("1.2.3", 61.2, 60_000, 59_000, [Rate(1, 1000, 0), Rate(2, 1000, 900)])

    text = page(run, some_results())

    outline = Outline(text)
    assert (outline.tags.count("figure"), outline.tags.count("svg")) == (5, 5)
    assert (outline.outside, "script" in outline.tags, "link" in outline.tags) == ([], False, False)
    assert "http" not in text
    assert "@media (prefers-color-scheme: dark)" in text
    for part in ("60,000", "59,000", "3,010", "1,234", "/<b>", "red & blue", "08:00", "written"):
        assert part in outline.texts
    # Sessions of 1, 3 and 40 minutes; the last one is among the long ones.
    assert re.search(r"In the mean 14\.7 minutes and 6\.0 actions", text)
    assert "15+: 1" in outline.texts


def test_without_results_it_says_why() -> None:
    text = page(Run("1.2.3", 3.0, 900, 0, []), Results())

    outline = Outline(text)
    assert (outline.tags.count("figure"), outline.tags.count("svg")) == (5, 0)
    assert text.count("Spark needs some seconds to start") == 5
