"""The page of charts. tests/browser looks at it in a browser."""

from __future__ import annotations

from html.parser import HTMLParser

from ottla.cli.demo.history import Sample
from ottla.cli.demo.page import content, page
from tests.support.demo_snapshot import a_snapshot, a_spark_snapshot, a_starting_spark, some_samples


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
        self.texts.append(data.strip())


def test_it_has_all_charts_and_needs_nothing_else() -> None:
    outline = Outline(page(a_snapshot(spark=a_spark_snapshot()), is_live=False))

    assert (outline.tags.count("figure"), outline.tags.count("svg")) == (8, 6)
    assert [one for one in outline.outside if not one.startswith("data:")] == []
    for part in ("What 95 seconds of the demo found out", "123,456", "100,000", "44,123", "12,345"):
        assert part in outline.texts
    for part in ("/<b>bold</b>", "lag 23,456", "p99 6.0 ms", "41 MB", "dashed: may still grow"):
        assert part in outline.texts
    # Sessions of 0, 1, 1, 3, 3, 3, 8 and 40 minutes.
    assert "by minutes; in the mean 7.4 minutes and 6.0 actions" in outline.texts
    assert "15+" in outline.texts


def test_a_live_one_says_so_and_what_to_try() -> None:
    text = page(a_snapshot(spark=a_spark_snapshot()), is_live=True)

    assert '<span id="state" class="live">live</span>' in text
    assert "<code>ottla consume activity</code>" in text
    assert "<footer>" not in page(a_snapshot(), is_live=False)


def test_what_is_not_there_yet_is_waited_for() -> None:
    outline = Outline(content(a_snapshot(spark=a_starting_spark(), samples=[])))

    assert (outline.tags.count("figure"), outline.tags.count("svg")) == (8, 0)
    for part in ("Java 1.5 s", "Spark session 2.5 s", "first query 4.2 s", "first result"):
        assert part in outline.texts
    assert "Spark starts. The first minutes come with the first batch." in outline.texts
    assert outline.texts.count("Waits for the first batch of the query that ranks them.") == 2
    assert outline.texts.count("The first sample comes after a second.") == 4
    waits = "Waits for the first session to end: 30 minutes of the site after its last action."
    assert waits in outline.texts


def test_without_spark_it_is_about_the_broker() -> None:
    text = content(a_snapshot())

    assert Outline(text).tags.count("svg") == 3
    assert "Spark" not in text


def test_a_system_that_tells_no_memory() -> None:
    samples = [Sample(1.0, 1.0, 0.0, 1, None, None, None)]

    assert "This system does not tell it." in content(a_snapshot(samples=samples))


def test_a_long_demo_has_round_times() -> None:
    samples = [one._replace(at_s=one.at_s * 60) for one in some_samples()]
    outline = Outline(page(a_snapshot(samples=samples, elapsed_s=5700.0), is_live=False))

    assert "What 95 minutes of the demo found out" in outline.texts
    assert {"0 s", "30 min", "1 h", "1:30 h"} <= set(outline.texts)
