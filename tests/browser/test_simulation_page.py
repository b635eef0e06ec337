"""The page of a simulated run in a real browser, with pictures of it in .cache/screenshots."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

from ottla.cli.simulate.job import Job, Result
from ottla.cli.simulate.page import page_of
from ottla.testing.simulation.entry import FAULTS, STORE, Entry, Mark
from tests.support.browser import Browser, Scheme
from tests.support.contrast import lowest_contrast
from tests.support.need import need_chromium

SCREENSHOTS = Path(__file__).resolve().parents[2] / ".cache" / "screenshots"
WIDTHS = (400, 900, 1600)
SCHEMES: tuple[Scheme, ...] = ("light", "dark")
CLIENTS = ("admin", "consumer0", "copier0", "producer0")
_TEXTS = "h1, h2, p, code, label, .keys span, .axis span, .names div, td, pre"

# Marks of lanes that are seen, by their hosts.
_SEEN = """
[...document.querySelectorAll(".lane")].map((lane) => [...lane.querySelectorAll("a")].filter(
  (mark) => mark.getBoundingClientRect().width > 1
    && getComputedStyle(mark).backgroundColor !== "rgba(0, 0, 0, 0)").length)
"""
_ROWS = "[...document.querySelectorAll('tr')].filter((row) => row.offsetHeight).length"


def entries() -> list[Entry]:
    """Three brokers of which one is killed, and clients that do one thing of each kind."""
    found = [Entry(0.0, f"broker{each}", Mark.STARTS, "starts") for each in (1, 2, 3)]
    found += [Entry(0.5, f"broker{each}", Mark.RUNS, "has started") for each in (1, 2, 3)]
    found.append(Entry(0.6, STORE, Mark.CONTROLLER, "broker 1"))
    for number, (client, mark) in enumerate(product(CLIENTS, Mark)):
        found.append(Entry(1 + number / 4, client, mark, f"{mark}, with words " * 8))
    found += [
        Entry(18.0, FAULTS, Mark.FAULT, "kill:1"),
        Entry(18.0, "broker1", Mark.ENDED, "is killed"),
        Entry(18.5, STORE, Mark.LEADER, "source-0: leader 2, epoch 1, in sync [2, 3]"),
        Entry(19.0, "broker2", Mark.ROLE, "source-0 leads, leader epoch 1"),
        Entry(19.0, "broker3", Mark.ROLE, "source-0 follows 2, leader epoch 1"),
        Entry(19.1, "broker3", Mark.PAUSED, "is paused"),
        Entry(21.0, "broker3", Mark.RUNS, "goes on"),
        Entry(24.0, "broker2", Mark.STOPS, "is told to stop"),
    ]
    return found


RESULT = Result(
    Job(17),
    ["lost write: 'producer0:4' was acknowledged at 3 of source-0 and is not in the log"],
    "0123456789abcdef",
    ["kill:1"],
    {},
    1,
    False,
    entries(),
)


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
def opened(browser: Browser, tmp_path: Path) -> Browser:
    path = tmp_path / "run.html"
    path.write_text(page_of(RESULT), encoding="utf-8")
    browser.open(path.as_uri())
    return browser


def test_all_of_it_can_be_read_at_every_width(opened: Browser) -> None:
    for width, scheme in product(WIDTHS, SCHEMES):
        opened.size(width)
        opened.scheme(scheme)
        assert opened.run("document.documentElement.scrollWidth") == width
        assert lowest_contrast(opened, _TEXTS) >= 4.5
        seen = opened.run(_SEEN)
        assert len(seen) == 2 + 3 + len(CLIENTS)
        assert all(seen), seen
        opened.screenshot(SCREENSHOTS / f"simulation-{width}-{scheme}.png")
    assert opened.complaints == []


def test_a_key_hides_its_marks_and_rows(opened: Browser) -> None:
    rows = opened.run(_ROWS)
    opened.run("document.querySelector('#k-retry').click()")
    assert opened.run(_ROWS) == rows - len(CLIENTS)
    opened.run("document.querySelector('#k-log').click()")
    assert opened.run(_ROWS) == rows


def test_zoom_makes_time_wider_and_the_page_not(opened: Browser) -> None:
    opened.size(900)
    width = opened.run("document.querySelector('.lane').offsetWidth")
    opened.run("document.querySelector('#z10').click()")
    assert opened.run("document.querySelector('.lane').offsetWidth") == pytest.approx(
        10 * width, rel=0.01
    )
    assert opened.run("document.documentElement.scrollWidth") == 900


def test_a_mark_leads_to_its_line(opened: Browser) -> None:
    opened.run("document.querySelector('.lane a.m-ended').click()")
    opened.wait_for("document.querySelector('tr:target') !== null")
    assert "is killed" in opened.run("document.querySelector('tr:target').textContent")
