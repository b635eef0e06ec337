from __future__ import annotations

import io
import json
from typing import Any

import pytest
from rich.console import Console

from ottla.cli.groups.watch import LagHistory, drawn, plain_lines, show, trend_text


def group(*lags: int | None, name: str = "billing") -> dict[str, Any]:
    known = [lag for lag in lags if lag is not None]
    return {
        "group": name,
        "state": "Stable",
        "lag": sum(known) if known else None,
        "members": [{"member_id": "m-1"}],
        "partitions": [
            {
                "topic": "clicks",
                "partition": number,
                "committed_offset": None if lag is None else 10_000 - lag,
                "latest_offset": 10_000,
                "lag": lag,
                "member_id": "[m-1]",
            }
            for number, lag in enumerate(lags)
        ],
    }


def history_of(*samples: dict[str, Any], every_s: float = 2.0) -> LagHistory:
    now_s = [0.0]
    history = LagHistory(lambda: now_s[0])
    for sample in samples:
        history.add([sample])
        now_s[0] += every_s
    return history


def test_the_rate_is_over_what_is_remembered() -> None:
    history = history_of(group(10, 5), group(30, 5), group(50, 1))

    assert history.rate([("billing", "clicks", 0)]) == 10.0
    assert history.rate([("billing", "clicks", 1)]) == -1.0
    assert history.rate([("billing", "clicks", 0), ("billing", "clicks", 1)]) == 9.0


def test_there_is_no_rate_before_the_second_sample() -> None:
    assert history_of(group(10)).rate([("billing", "clicks", 0)]) is None
    assert history_of(group(None), group(None)).rate([("billing", "clicks", 0)]) is None
    assert history_of().rate([]) is None


def test_a_partition_that_came_later_has_its_own_time() -> None:
    history = history_of(group(None), group(10), group(30))

    assert history.rate([("billing", "clicks", 0)]) == 10.0


def test_only_the_last_samples_are_remembered() -> None:
    history = history_of(*[group(lag) for lag in [1000, *[0] * 29]])
    assert history.line(("billing", "clicks", 0)) == "█" + "▁" * 29

    history = history_of(*[group(lag) for lag in [1000, *[0] * 30]])
    assert history.line(("billing", "clicks", 0)) == "▁" * 30
    assert history.rate([("billing", "clicks", 0)]) == 0.0


@pytest.mark.parametrize(
    ("rate", "text"),
    [
        (None, "-"),
        (0.0, "steady"),
        (-0.04, "steady"),
        (12.0, "+12.0/s"),
        (-1234.5, "-1,234.5/s"),
    ],
)
def test_trends_in_words(rate: float | None, text: str) -> None:
    assert trend_text(rate) == text


def test_a_line_for_each_group() -> None:
    history = history_of(group(10, 1500), group(30, 1500))

    assert plain_lines("12:00", [group(30, 1500), group(None, name="new")], history) == [
        "12:00  billing  Stable  1 member  lag 1,530  +10.0/s",
        "12:00  new  Stable  1 member  lag -  -",
    ]


def test_the_drawn_table_has_bars_and_names_in_brackets() -> None:
    console = Console(file=io.StringIO(), width=140)
    console.print(drawn([group(30, 0)], history_of(group(10, 0), group(30, 0)), console.width))

    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    lines = [line.split() for line in text.splitlines()]
    assert ["clicks", "0", "9,970", "10,000", "30", "+10.0/s", "▃█", "[m-1]"] in lines
    assert ["clicks", "1", "10,000", "10,000", "0", "steady", "▁▁", "[m-1]"] in lines
    assert "billing  Stable, 1 member, lag 30, +10.0/s" in text


def test_a_narrow_terminal_has_the_lag_and_its_trend() -> None:
    console = Console(file=io.StringIO(), width=60)
    console.print(drawn([group(30, 0)], history_of(group(10, 0), group(30, 0)), console.width))

    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    assert max(map(len, lines)) <= 60
    assert ["clicks", "0", "30", "+10.0/s", "▃█"] in [line.split() for line in lines]


def test_a_line_of_json_for_each_sample(capsys: pytest.CaptureFixture[str]) -> None:
    show(iter([[group(10)], [group(30)]]), as_json=True)

    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["groups"][0]["lag"] for line in lines] == [10, 30]
    assert all(line["time"].endswith("Z") for line in lines)


def test_in_a_pipe_it_prints_lines(capsys: pytest.CaptureFixture[str]) -> None:
    show(iter([[group(10)]]), as_json=False)

    assert capsys.readouterr().out.endswith("  billing  Stable  1 member  lag 10  -\n")
