from __future__ import annotations

import re
from html.parser import HTMLParser

from ottla.cli.simulate.job import Job
from ottla.cli.simulate.page import hosts_of, page_of
from ottla.testing.simulation.entry import FAULTS, STORE, Entry, Mark
from tests.unit.cli.simulate.fakes import a_result

ENTRIES = [
    Entry(0.0, "broker1", Mark.STARTS, "starts"),
    Entry(1.0, "broker1", Mark.RUNS, "has started"),
    Entry(2.0, "producer0", Mark.ACKNOWLEDGED, "<script> is acknowledged at 0"),
    Entry(4.0, FAULTS, Mark.FAULT, "kill:1"),
    Entry(4.0, "broker1", Mark.ENDED, "is killed"),
    Entry(8.0, STORE, Mark.LEADER, "t-0: leader -1"),
    Entry(10.0, "admin", Mark.RETRY, "tries again"),
]


def test_a_lane_for_each_host_from_what_is_done_to_them_to_clients() -> None:
    assert hosts_of(ENTRIES) == [FAULTS, STORE, "broker1", "admin", "producer0"]
    page = page_of(a_result(Job(17), entries=ENTRIES))
    assert page.count('<div class="lane">') == 5


def test_marks_and_bars_are_where_they_happened() -> None:
    page = page_of(a_result(Job(17), entries=ENTRIES))
    assert '<b class="starts" style="left:0.000%;width:10.000%">' in page
    assert '<b class="runs" style="left:10.000%;width:30.000%">' in page
    assert re.search(r'<a href="#e4" class="m-ended" style="left:40.000%"', page)
    assert '<tr id="e4" class="m-ended">' in page


def test_what_clients_say_is_text() -> None:
    page = page_of(a_result(Job(17), problems=["lost write: <b>"], entries=ENTRIES))
    assert "<script>" not in page
    assert "&lt;script&gt; is acknowledged" in page
    assert "lost write: &lt;b&gt;" in page


def test_it_needs_nothing_else_and_its_colours_are_known() -> None:
    page = page_of(a_result(Job(17, ("kill:1",)), entries=ENTRIES))
    assert not re.search(r"src=|url\(|https?:", page)
    assert set(re.findall(r"var\((--\w+)\)", page)) <= set(re.findall(r"(--\w+):", page))
    assert "--seed 17 --faults kill:1 --trace" in page
    HTMLParser().feed(page)


def test_a_run_without_entries_has_a_page() -> None:
    assert "Seed 17" in page_of(a_result(Job(17)))
