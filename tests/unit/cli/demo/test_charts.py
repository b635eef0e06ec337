"""Plots, as text that is looked at by an XML parser."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from ottla.cli.demo.charts import WIDTH, Series, bars, columns, lines, ticks


@pytest.mark.parametrize(
    ("top", "expected"),
    [
        (0, [0, 1]),
        (3, [0, 1, 2, 3]),
        (5, [0, 2, 4, 6]),
        (730, [0, 200, 400, 600, 800]),
        (2001, [0, 1000, 2000, 3000]),
        (20_000, [0, 5000, 10_000, 15_000, 20_000]),
    ],
)
def test_ticks_are_round_and_reach_the_top(top: float, expected: list[float]) -> None:
    assert ticks(top) == expected


def texts(svg: ElementTree.Element) -> list[str | None]:
    return [element.text for element in svg.iter("text")]


def test_lines_stay_in_the_picture_and_have_names() -> None:
    labels = [f"08:{minute:02}" for minute in range(60)]
    series = [Series("page views", list(range(60))), Series("a < b", [59] * 60)]

    svg = ElementTree.fromstring(lines(labels, series, "Traffic"))

    assert svg.get("aria-label") == "Traffic"
    height = float(str(svg.get("viewBox")).split()[3])
    for line in svg.iter("polyline"):
        points = [tuple(map(float, point.split(","))) for point in str(line.get("points")).split()]
        assert len(points) == 60
        assert all(0 <= x <= WIDTH and 0 <= y <= height for x, y in points)
    assert {"page views", "a < b", "08:00", "60"} <= set(texts(svg))
    # Labels that would stand on one another are left out, and names are apart.
    assert len([text for text in texts(svg) if text and text.startswith("08:")]) < 10
    places = [float(str(one.get("y"))) for one in svg.iter("text") if one.get("class")]
    assert abs(places[0] - places[1]) > 13
    assert "08:03: 3 page views" in {element.text for element in svg.iter("title")}


def test_bars_are_as_long_as_their_values() -> None:
    svg = ElementTree.fromstring(bars([("/a&b", 1200), ("/c", 600), ("/d", 0)], "Top", number=2))

    lengths = [float(str(bar.get("width"))) for bar in svg.iter("rect")]
    assert lengths[0] == pytest.approx(2 * lengths[1])
    assert lengths[2] == 1
    assert {bar.get("class") for bar in svg.iter("rect")} == {"bar s2"}
    assert texts(svg)[:2] == ["/a&b", "1,200"]


def test_columns_are_as_high_as_their_values() -> None:
    svg = ElementTree.fromstring(columns([("0", 10), ("1", 20)], "Lengths"))

    heights = [float(str(bar.get("height"))) for bar in svg.iter("rect")]
    assert heights[1] == pytest.approx(2 * heights[0])


def test_a_single_point_is_a_plot() -> None:
    assert "polyline" in lines(["0 s"], [Series("written", [0])], "Rates")
