"""What `./ottla bench` writes: rows of several runs in one table, and where a start's time goes."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from bench.machine import commit
from bench.results import KAFKA, OTTLA, Results
from bench.start_parts import Answered, Part, import_times, parts

MACHINE = {"commit": "aaaaaaa", "date": "2026-01-01", "processor": "two cores", "load_before": "0"}


def results(commit: str = "aaaaaaa", rounds: int = 2, **machine: str) -> Results:
    return Results({**MACHINE, "commit": commit, **machine}, rounds, is_quick=False)


def measured(of: Results, key: str, kafka: float, ottla: float) -> None:
    for _ in range(int(of.runs[0]["rounds"])):
        of.add(KAFKA, {key: kafka})
        of.add(OTTLA, {key: ottla})


def written(of: Results, folder: Path) -> dict[str, Any]:
    of.write(folder)
    content: dict[str, Any] = json.loads((folder / "results.json").read_text())
    return content


def rows(of: Results) -> dict[str, tuple[str, ...]]:
    return {cells[0]: cells[2:4] + cells[10:] for cells in of.all_cells()}


def test_rows_of_one_run_do_not_say_which(tmp_path: Path) -> None:
    run = results()
    measured(run, "sync_p50_us", 100, 50)
    assert rows(run) == {"sync produce p50": ("100", "50.0")}
    assert "- run 1: 2026-01-01, commit aaaaaaa, 2 rounds, load before 0\n" in run.markdown()


def test_an_update_replaces_what_was_measured_and_says_from_which_run_a_row_is(
    tmp_path: Path,
) -> None:
    first = results()
    for key in ("sync_p50_us", "sync_p99_us", "sync_p999_us"):
        measured(first, key, 200, 100)
    first.ceiling = {"ceiling_in_mb": 1000.0}
    second = results("bbbbbbb", rounds=1)
    measured(second, "sync_p99_us", 300, 150)
    second.take_earlier(written(first, tmp_path), ["sync_latency"])
    assert rows(second) == {
        "sync produce p50": ("200", "100", "1"),
        "sync produce p99": ("300", "150", "2"),
        "sync produce p99.9": ("200", "100", "1"),
    }
    assert second.ceiling_cells() == [("loopback socket into a file", "MB/s", "1,000", "1")]
    # One round has no verdict, two have, in one table.
    assert [cells[7] for cells in second.all_cells()] == ["reached", "one round: none", ""]

    third = results("ccccccc")
    third.ceiling = {"ceiling_in_mb": 2000.0}
    for key in ("sync_p50_us", "sync_p999_us"):
        measured(third, key, 400, 200)
    third.take_earlier(written(second, tmp_path), ["sync_latency", "ceiling"])
    # Nothing is left of the first run, and so it is not named.
    assert [run["commit"] for run in third.runs] == ["bbbbbbb", "ccccccc"]
    assert [cells[-1] for cells in (*third.all_cells(), *third.ceiling_cells())] == [*"2122"]


def test_failures_stay_until_their_benchmark_is_run_again(tmp_path: Path) -> None:
    first = results()
    first.failures = {"start, Ottla": "did not answer", "spark, Ottla": "no Java"}
    second = results("bbbbbbb")
    second.take_earlier(written(first, tmp_path), ["start"])
    assert second.failures == {"spark, Ottla": "no Java"}


@pytest.mark.parametrize(
    ("processor", "difference"),
    [("two cores", ""), ("one core", "processor: two cores then, one core now")],
)
def test_rows_of_another_machine_do_not_go_into_one_table(
    tmp_path: Path, processor: str, difference: str
) -> None:
    earlier = written(results(), tmp_path)
    assert results("bbbbbbb", processor=processor).difference(earlier) == difference


SAID = (
    'time=1970-01-01T00:01:40.120Z level=info logger=ottla.cli.start message="the start took: '
    'Python and command line 30.0 ms (CPU 30.0), log dirs 1.5 ms (CPU 0.5), store 8.0 ms (CPU 4.0)"'
)


def test_the_parts_of_a_start_are_all_of_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    python = Part("Python itself", 12.0, 10.0)
    monkeypatch.setattr("bench.start_parts._python_itself", lambda: python)
    found = parts(SAID, Answered(elapsed_s=0.050, cpu_s=0.036, at_s=100.125))
    assert [(part.name, round(part.elapsed_ms, 3), round(part.cpu_ms, 3)) for part in found] == [
        ("Python itself", 12.0, 10.0),
        ("command line", 23.5, 20.0),
        ("log dirs", 1.5, 0.5),
        ("store", 8.0, 4.0),
        ("first request: connect, decode, answer", 5.0, 1.5),
    ]


def test_what_a_start_takes_is_a_table_of_the_page() -> None:
    run = results()
    run.add(OTTLA, {"start_part: store": 8.0, "start_part: store.cpu": 4.0})
    run.add(OTTLA, {"start_part: logs": 2.0, "start_part: logs.cpu": 1.0})
    run.add(OTTLA, {"start_import: asyncio": 20.0, "start_import: gc": 0.25})
    assert run.start_cells() == [
        ("store", "8.00", "4.00"),
        ("logs", "2.00", "1.00"),
        ("all", "10.0", "5.00"),
    ]
    assert "counted with them: asyncio 20.0, all others 0.25." in run.markdown()


REPORT = """\
import time: self [us] | cumulative | imported package
import time:       100 |        100 | site
import time:      1000 |       1000 |       _ssl
import time:      2000 |       3000 |     ssl
import time:      4000 |       7000 |   asyncio
import time:       500 |        500 |   ottla.wire.api
import time:       250 |        250 |     ottla.wire.codec
import time:       125 |       7875 | ottla.broker
"""


def test_imports_are_counted_with_whoever_of_ours_asked_for_them() -> None:
    assert import_times(REPORT) == {
        "Python itself": 0.1,
        "asyncio": 7.0,
        "ottla.wire": 0.75,
        "ottla.broker": 0.125,
    }


def test_a_run_names_the_newest_commit_that_has_more_than_results(tmp_path: Path) -> None:
    def git(*arguments: str) -> str:
        command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def committed(path: str, text: str) -> str:
        (tmp_path / path).write_text(text)
        git("add", path)
        git("commit", "--quiet", "--no-gpg-sign", "--no-verify", "--message", path)
        return git("rev-parse", "--short=7", "HEAD")

    (tmp_path / "bench").mkdir()
    git("init", "--quiet")
    measured = committed("broker.py", "slow")
    for result in ("bench/RESULTS.md", "bench/results.json"):
        assert committed(result, "of a run") != measured
        assert commit(tmp_path) == measured
        (tmp_path / result).write_text("of the next run")
    assert commit(tmp_path) == measured

    (tmp_path / "broker.py").write_text("fast")
    assert commit(tmp_path) == f"{measured}+"
    assert committed("broker.py", "fast") == commit(tmp_path) != measured
