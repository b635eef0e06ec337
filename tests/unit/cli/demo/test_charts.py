"""Plots, as text that is looked at by an XML parser."""

from __future__ import annotations

import json
import re
from xml.etree import ElementTree

import pytest

from ottla.cli.demo.charts import Axes, Series, bars, columns, line_chart, time_ticks, value_ticks

AXES = Axes(lambda at_s: f"{at_s:.0f} s", lambda value: f"{value:g}")


@pytest.mark.parametrize(
    ("top", "expected"),
    [
        (0, [0, 1]),
        (0.25, [0, 0.1, 0.2, 0.3]),
        (1, [0, 0.5, 1]),
        (3, [0, 1, 2, 3]),
        (5, [0, 2, 4, 6]),
        (730, [0, 200, 400, 600, 800]),
        (2001, [0, 1000, 2000, 3000]),
        (20_000, [0, 5000, 10_000, 15_000, 20_000]),
    ],
)
def test_ticks_are_round_and_reach_the_top(top: float, expected: list[float]) -> None:
    assert value_ticks(top) == expected


@pytest.mark.parametrize(
    ("first_s", "last_s", "expected"),
    [
        (0, 4, [0, 1, 2, 3, 4]),
        (0, 47, [0, 10, 20, 30, 40]),
        (8 * 3600 + 130, 8 * 3600 + 1000, [8 * 3600 + 300, 8 * 3600 + 600, 8 * 3600 + 900]),
        (0, 7 * 86_400, [0, 2 * 86_400, 4 * 86_400, 6 * 86_400]),
    ],
)
def test_ticks_of_time_are_round(first_s: float, last_s: float, expected: list[float]) -> None:
    assert time_ticks(first_s, last_s, 5) == expected


def parsed(plot: str) -> ElementTree.Element:
    return ElementTree.fromstring(plot)


def drawn_points(path: ElementTree.Element) -> list[tuple[float, ...]]:
    found = re.findall(r"([\d.]+),([\d.]+)", path.get("d", ""))
    return [tuple(map(float, point)) for point in found]


def paths(plot: ElementTree.Element, kind: str) -> list[ElementTree.Element]:
    return [path for path in plot.iter("path") if path.get("class") == kind]


def test_lines_stay_in_the_picture_and_tell_each_point() -> None:
    series = [Series("views", list(range(60))), Series("a < b", [59] * 60)]
    plot = parsed(line_chart("Traffic & more", list(range(60)), series, AXES))

    (svg,) = plot.iter("svg")
    assert svg.get("aria-label") == "Traffic & more"
    for number in (1, 2):
        (line,) = paths(plot, f"line s{number}")
        points = drawn_points(line)
        assert len(points) == 60
        assert all(0 <= x <= 1000 and 0 <= y <= 1000 for x, y in points)
    assert len(str(plot.get("data-at")).split()) == 60
    assert json.loads(str(plot.get("data-tips")))[3] == "3 s · 3 views · 59 a < b"
    labels = [span.text for span in plot.iter("span") if str(span.get("class")).startswith("x")]
    assert labels == ["0 s", "15 s", "30 s", "45 s"]
    assert len(list(plot.iter("i"))) == 2


def test_what_may_still_grow_is_dashed() -> None:
    plot = parsed(line_chart("T", [0, 1, 2, 3], [Series("n", [4, 4, 4, 1])], AXES, final_count=2))

    (final,), (rest,) = paths(plot, "line s1"), paths(plot, "line open s1")
    assert (len(drawn_points(final)), len(drawn_points(rest))) == (2, 3)
    assert drawn_points(final)[-1] == drawn_points(rest)[0]
    assert [dot.get("class") for dot in plot.iter("i")] == ["dot open s1"]
    tips = json.loads(str(plot.get("data-tips")))
    assert ["may still grow" in tip for tip in tips] == [False, False, True, True]


def test_nothing_is_drawn_where_nothing_was_measured() -> None:
    plot = parsed(line_chart("T", [0, 1, 2, 3], [Series("n", [1, None, 3, None])], AXES))

    (line,) = paths(plot, "line s1")
    assert str(line.get("d")).count("M") == 2
    assert list(plot.iter("i")) == []
    assert json.loads(str(plot.get("data-tips")))[1] == "1 s"


def test_a_single_point_is_a_plot() -> None:
    plot = parsed(line_chart("T", [0.5], [Series("n", [0])], Axes(str, str, first_s=0)))

    assert [dot.get("style") for dot in plot.iter("i")] == ["left:50.00%;top:100.00%"]


def test_bars_are_as_long_as_their_values() -> None:
    plot = parsed(bars([("/a&b", 1200), ("/c", 600), ("/d", 0)], number=2))

    assert [bar.get("style") for bar in plot.iter("i")] == [
        "width:100.00%",
        "width:50.00%",
        "width:0.00%",
    ]
    assert {bar.get("class") for bar in plot.iter("i")} == {"bar s2"}
    texts = [span.text for span in plot.iter("span") if span.text]
    assert texts[:2] == ["/a&b", "1,200"]


def test_columns_are_as_high_as_their_values() -> None:
    plot = parsed(columns("Lengths", [(str(n), n) for n in range(1, 17)]))

    heights = [float(str(bar.get("height"))) for bar in plot.iter("rect")]
    assert heights[1] == pytest.approx(2 * heights[0])
    # A narrow plot has no room for all names.
    minor = [span.text for span in plot.iter("span") if span.get("class") == "x minor"]
    assert minor == ["2", "4", "6", "8", "10", "12", "14", "16"]
