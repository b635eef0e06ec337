"""The demo's page of charts in a real browser: what a script can see of how it looks, and pictures
in .cache/screenshots for those who look at it themselves."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from ottla.cli.demo.page import page
from ottla.cli.demo.snapshot import Snapshot
from ottla.cli.demo.web import PageServer
from tests.support.browser import Browser, Scheme
from tests.support.contrast import lowest_contrast
from tests.support.demo_snapshot import a_snapshot, a_spark_snapshot, a_starting_spark, some_samples
from tests.support.need import need_chromium

SCREENSHOTS = Path(__file__).resolve().parents[2] / ".cache" / "screenshots"
WIDTHS = (400, 900, 1600)
SCHEMES: tuple[Scheme, ...] = ("light", "dark")

SNAPSHOTS = {
    "results": a_snapshot(spark=a_spark_snapshot()),
    "start": a_snapshot(spark=a_starting_spark(), samples=some_samples(4)),
    "first-second": a_snapshot(spark=a_starting_spark(), samples=[], written=0, records=[]),
    "small": a_snapshot(),
}

# Whatever has text of its own, and is not meant to be cut off.
_CLIPPED = """
[...document.querySelectorAll("body *")].filter((element) => {
  const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
  if (!own || element.closest("script, style") || element.matches(".name")) return false;
  if (getComputedStyle(element).display === "none") return false;
  const box = element.getBoundingClientRect();
  const card = (element.closest("figure, .facts > div") || document.body).getBoundingClientRect();
  return box.left < card.left || box.right > card.right + 0.5 || box.right > innerWidth
    || box.height < 8 || element.scrollWidth > element.clientWidth + 1 && element.clientWidth > 0;
}).map((element) => `${element.className}: ${element.textContent}`)
"""

# Labels of one axis that stand on one another.
_OVERLAPPING = """
[...document.querySelectorAll(".chart")].flatMap((chart) => [".x", ".y"].flatMap((kind) => {
  const labels = [...chart.querySelectorAll(kind)].filter((one) => one.offsetWidth);
  const boxes = labels.map((one) => one.getBoundingClientRect());
  return labels.filter((_, i) => boxes.some((other, j) => j < i
    && other.left < boxes[i].right && boxes[i].left < other.right
    && other.top < boxes[i].bottom && boxes[i].top < other.bottom));
})).map((label) => label.textContent)
"""

# How many lines, bars and dots are seen of each figure that has a plot.
_MARKS = """
[...document.querySelectorAll("figure")].filter((one) => one.querySelector(".chart, .bars")).map(
  (figure) => [...figure.querySelectorAll(".line, .bar, .dot")].filter((mark) => {
    const box = mark.getBoundingClientRect();
    const style = getComputedStyle(mark);
    const colour = mark.matches("path") ? style.stroke
      : mark.matches("rect") ? style.fill : style.backgroundColor;
    return box.width > 1 && box.height + parseFloat(style.strokeWidth || 0) > 1
      && colour !== "none" && colour !== "rgba(0, 0, 0, 0)";
  }).length)
"""
_TEXTS = "h1, h2, p, dt, dd, small, span, li, .waiting"


class Shown:
    """What the server is asked for."""

    def __init__(self) -> None:
        self.snapshot: Snapshot = SNAPSHOTS["results"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = need_chromium()
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        Browser(path, Path(folder)) as browser,
    ):
        yield browser


@pytest.fixture
def shown() -> Shown:
    return Shown()


@pytest.fixture
def server(shown: Shown) -> Iterator[PageServer]:
    with PageServer(lambda: shown.snapshot) as server:
        yield server


@pytest.mark.parametrize("name", SNAPSHOTS)
def test_all_of_it_can_be_read_at_every_width(
    browser: Browser, shown: Shown, server: PageServer, name: str
) -> None:
    shown.snapshot = SNAPSHOTS[name]
    browser.open(server.url)
    for width, scheme in product(WIDTHS, SCHEMES):
        browser.size(width)
        browser.scheme(scheme)
        assert browser.run("document.documentElement.scrollWidth") == width
        assert browser.run(_CLIPPED) == []
        assert browser.run(_OVERLAPPING) == []
        assert lowest_contrast(browser, _TEXTS) >= 4.5
        marks = browser.run(_MARKS)
        assert all(marks), marks
        assert len(marks) == {"results": 8, "start": 4, "first-second": 0, "small": 3}[name]
        browser.screenshot(SCREENSHOTS / f"demo-{name}-{width}-{scheme}.png")
    assert browser.complaints == []


def test_it_renews_itself(browser: Browser, shown: Shown, server: PageServer) -> None:
    shown.snapshot = SNAPSHOTS["first-second"]
    browser.open(server.url)
    assert browser.run("document.querySelectorAll('svg').length") == 0

    shown.snapshot = SNAPSHOTS["results"]

    browser.wait_for("document.querySelectorAll('svg').length === 6")
    assert browser.run("document.querySelector('#state').textContent") == "live"
    assert browser.complaints == []


def test_a_point_tells_its_values_and_stays_while_the_page_is_renewed(
    browser: Browser, shown: Shown, server: PageServer
) -> None:
    browser.open(server.url)
    browser.size(400)
    for place, tip in ((30 / 59, "08:30 · 530 page views · 330 visitors"), (1, "08:59")):
        x, y = _place_in_first_chart(browser, place)
        browser.move(x, y)
        assert str(browser.run("document.querySelector('.tip').textContent")).startswith(tip)
        box = browser.run("document.querySelector('.tip').getBoundingClientRect().toJSON()")
        assert (box["left"] >= 0, box["right"] <= 400) == (True, True)

    shown.snapshot = a_snapshot(spark=a_spark_snapshot(), written=999_999)
    browser.wait_for("document.querySelector('dd').textContent.startsWith('999,999')")
    assert browser.run("document.querySelectorAll('.tip').length") == 1
    browser.move(1, 1)
    assert browser.run("document.querySelectorAll('.tip').length") == 0


def _place_in_first_chart(browser: Browser, place: float) -> tuple[float, float]:
    box: dict[str, Any] = browser.run(
        "(() => { const chart = document.querySelector('.chart'); chart.scrollIntoView();"
        " return chart.getBoundingClientRect().toJSON(); })()"
    )
    return box["left"] + box["width"] * place, box["top"] + box["height"] / 2


def test_when_the_demo_has_ended_the_page_says_so_and_stays(browser: Browser, shown: Shown) -> None:
    with PageServer(lambda: shown.snapshot) as server:
        browser.open(server.url)

    browser.wait_for(
        "document.querySelector('#state').textContent.startsWith('The demo has ended')"
    )
    assert browser.run("document.querySelectorAll('svg').length") == 6


def test_the_file_that_is_left_needs_nothing_else(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(page(SNAPSHOTS["results"], is_live=False), encoding="utf-8")

    browser.open(path.as_uri())

    assert browser.run("document.querySelectorAll('svg').length") == 6
    assert all(browser.run(_MARKS))
    assert browser.run("performance.getEntriesByType('resource').map((one) => one.name)") == []
    assert browser.complaints == []
