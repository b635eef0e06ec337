from __future__ import annotations

from typing import Any

import pytest

from ottla.cli.pipeline.results import metrics
from ottla.cli.pipeline.results.metrics import found_in, is_empty, print_found


def alarm(minute: int, host: str) -> dict[str, Any]:
    return {
        "rule": "cpu-busy",
        "aggregate": "mean",
        "value": 83.2,
        "threshold": 80.0,
        "is_above": True,
        "host": host,
        "metric": "cpu_percent",
        "window_length": "1m",
        "window_start": f"2026-01-01T09:{minute:02}:00.000Z",
        "window_end": f"2026-01-01T09:{minute + 1:02}:00.000Z",
    }


def test_the_newest_alarms_come_first(capsys: pytest.CaptureFixture[str]) -> None:
    found = found_in({"metrics-alarms": [alarm(1, "a"), alarm(3, "b"), alarm(2, "a")]}, "/no/lake")
    assert [one["window_start"][14:16] for one in found["alarms"]] == ["03", "02", "01"]

    print_found(found)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "alarms  3 of 2 hosts"
    words = ["2026-01-01", "09:03:00", "1m", "cpu-busy", "b", "mean(cpu_percent)", "83.2"]
    assert lines[3].split() == [*words, ">", "80"]


def test_more_than_a_screen_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    print_found(found_in({"metrics-alarms": [alarm(one, "a") for one in range(25)]}, "/no/lake"))

    assert capsys.readouterr().out.endswith("The newest 20 of 25; --json has them all.\n")


def test_windows_of_the_lake(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    minutes = [
        {"start": f"2026-01-01T09:0{one}:00.000Z", "mean": 10.0 * one, "p99": 99.0}
        for one in (1, 2)
    ]
    windows = [{"metric": "cpu_percent", "hosts": 3, "minutes": minutes}]
    monkeypatch.setattr(metrics, "windows_in", lambda _: windows)

    found = found_in({}, "/a/lake")
    assert not is_empty(found)
    print_found(found)
    assert capsys.readouterr().out.splitlines()[-1].split() == [
        "cpu_percent",
        "3",
        "20",
        "99",
        "▅█",
    ]


def test_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_empty(found_in({}, "/no/lake"))
