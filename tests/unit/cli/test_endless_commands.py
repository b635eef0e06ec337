"""For which commands Ctrl-C is the ordinary way to end."""

from __future__ import annotations

import pytest

from ottla.cli.endless_commands import is_endless


@pytest.mark.parametrize(
    "line",
    [
        "start --data-dir data",
        "demo --small",
        "consume clicks -b --key k -gnone -oend-5",
        "generate logs --rate 5",
        "pipeline run logs --json",
        "groups describe billing --watch",
        "groups describe -w",
    ],
)
def test_until_it_is_ended(line: str) -> None:
    assert is_endless(line.split())


@pytest.mark.parametrize(
    "line",
    [
        "",
        "--help",
        "topics list",
        "produce clicks",
        "consume clicks --max 5",
        "consume clicks --max=5",
        "consume clicks -n5",
        "consume clicks -be",
        "consume --until-end clicks",
        "generate logs --count 10",
        "generate logs --seconds=10 --fast",
        "perf produce --rate 5",
        "pipeline run logs --once",
        "pipeline replay logs",
        "pipeline status",
        "groups describe --watch --samples 3",
    ],
)
def test_until_its_work_is_done(line: str) -> None:
    assert not is_endless(line.split())
