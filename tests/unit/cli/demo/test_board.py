"""The demo's screen."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from ottla.cli.demo.board import board, closing_line, plain_line
from ottla.cli.demo.read_back import ReadRecord
from ottla.cli.demo.snapshot import Snapshot, SparkSnapshot
from ottla.cli.pipeline.results.activity_results import Results
from tests.support.demo_snapshot import QUERIES, a_snapshot, a_spark_snapshot, a_starting_spark

HEAD = (
    " 95.2 s: 123,456 records written (1,001/s), end to end p50 1.2 ms p99 6.0 ms, broker 41.0 MB"
)


def drawn(snapshot: Snapshot, width: int = 80, height: int = 24, **options: bool) -> list[str]:
    out = io.StringIO()
    console = Console(file=out, width=width, height=height, **options)  # type: ignore[arg-type]
    console.print(board(snapshot, width, height))
    return out.getvalue().splitlines()


@pytest.mark.parametrize("width", [60, 80, 120, 200])
@pytest.mark.parametrize("spark", [None, a_starting_spark(), a_spark_snapshot()])
def test_it_fits_the_terminal(width: int, spark: SparkSnapshot | None) -> None:
    found = drawn(a_snapshot(spark=spark), width)

    assert max(map(len, found)) == min(width, 120)
    assert len(found) <= 24
    assert found[-1].startswith("╰")


@pytest.mark.parametrize("spark", [None, a_starting_spark(), a_spark_snapshot()])
def test_long_commands_fit_a_narrow_terminal(spark: SparkSnapshot | None) -> None:
    commands = ["ottla consume activity --bootstrap 127.0.0.1:44405"] * 2
    found = drawn(a_snapshot(spark=spark, commands=commands), 60)

    assert len(found) <= 24
    assert "".join(line.strip("│ ") for line in found).count("127.0.0.1:44405") == 2


def test_it_shows_the_broker_and_what_to_try_from_the_first_second() -> None:
    text = "\n".join(drawn(a_snapshot(spark=a_starting_spark())))

    for part in ("ottla 1.2.3 on 127.0.0.1:9092", "up 95 s, Ctrl-C ends", "123,456", "1,001/s"):
        assert part in text
    for part in ("p50 1.2 ms", "p99 6.0 ms", "41.0 MB", "ready in 0.12 s", "2 @ 1,009", "user-9"):
        assert part in text
    for part in (
        "views /page/7",
        "http://127.0.0.1:8123/",
        "ottla consume activity",
        "ottla topics list",
    ):
        assert part in text


def test_it_shows_how_far_the_start_of_spark_is() -> None:
    lines = [line.strip("│ ") for line in drawn(a_snapshot(spark=a_starting_spark()))]
    start = lines.index("Spark starts")

    assert [line.split() for line in lines[start + 1 : start + 6]] == [
        ["✓", "Java", "1.5", "s"],
        ["✓", "Spark", "session", "2.5", "s"],
        ["▸", "first", "query", "4.2", "s"],
        ["first", "result"],
        ["all", "queries"],
    ]


def test_it_shows_what_spark_found_out() -> None:
    text = "\n".join(drawn(a_snapshot(spark=a_spark_snapshot())))

    # The last final minute, not one that still grows.
    for part in ("100,000", "990/s", "23,456", "556    at 08:56", "356    at 08:56"):
        assert part in text
    for part in ("44,123", "12,345 visitors", "mean 7.4 min", "/<b>bold</b>", "[red] & blu"):
        assert part in text
    for part in QUERIES:
        assert f"{part} 1.6 s" in text


def test_with_more_lines_there_are_more_places() -> None:
    assert "/page/4" in "\n".join(drawn(a_snapshot(spark=a_spark_snapshot()), height=24))
    assert "/page/5" not in "\n".join(drawn(a_snapshot(spark=a_spark_snapshot()), height=24))
    assert "/page/10" in "\n".join(drawn(a_snapshot(spark=a_spark_snapshot()), height=40))


def test_without_spark_there_are_more_records() -> None:
    text = "\n".join(drawn(a_snapshot()))

    assert "Spark" not in text
    assert "user-0" in text


def test_before_the_first_sample() -> None:
    snapshot = a_snapshot(spark=a_starting_spark(), samples=[], records=[], written=0)

    assert len(drawn(snapshot)) == 24


def test_a_broken_record_is_told_as_one() -> None:
    snapshot = a_snapshot(
        records=[ReadRecord(0, 1, b"\xff\xfe{}", 1.0), ReadRecord(0, 2, b"[]", 2000.0)]
    )
    text = "\n".join(drawn(snapshot))

    assert text.count("broken, for the dead letters") == 2
    assert "2.0 s" in text


def test_the_address_is_a_link_where_the_terminal_can() -> None:
    text = "\n".join(drawn(a_snapshot(), force_terminal=True))

    assert "\x1b]8;" in text
    assert ";http://127.0.0.1:8123/\x1b\\" in text


def test_the_plain_line() -> None:
    assert plain_line(a_snapshot()) == HEAD
    assert plain_line(a_snapshot(samples=[])) == " 95.2 s: 123,456 records written (1,001/s)"
    starting = plain_line(a_snapshot(spark=a_starting_spark()))
    assert starting == f"{HEAD}; Spark starts (Spark session is there)"
    assert plain_line(a_snapshot(spark=a_spark_snapshot())) == (
        f"{HEAD}; 100,000 read by Spark: 44,123 page views of 12,345 visitors, 8 sessions"
    )


def test_the_closing_line_names_records_and_results() -> None:
    assert closing_line(a_snapshot()) == (
        "123,456 records written, 123,456 read back, p50 1.2 ms end to end"
    )
    assert closing_line(a_snapshot(spark=a_spark_snapshot(results=Results()))) == (
        "123,456 records written; no results yet, Spark was still starting"
    )
    assert closing_line(a_snapshot(spark=a_spark_snapshot())) == (
        "123,456 records written, 100,000 read by Spark: 44,123 page views of 12,345 visitors, "
        "8 sessions"
    )
    snapshot = a_spark_snapshot()
    snapshot.results.passed_over = 2
    assert closing_line(a_snapshot(spark=snapshot)).endswith(
        "8 sessions; 2 records that are no results passed over"
    )
