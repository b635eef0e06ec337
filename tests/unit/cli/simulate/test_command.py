from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from threading import Event

import pytest

from ottla.cli.main import main
from ottla.cli.simulate import command
from ottla.cli.simulate.job import Job, Result
from ottla.testing.simulation.entry import Entry, Mark
from tests.unit.cli.simulate.fakes import a_result

ENTRIES = [Entry(1.5, "broker1", Mark.ENDED, "is killed")]


class FakePool:
    """Answers at once, in this process."""

    def __init__(self, answer: Callable[[Job], Result]) -> None:
        self._answer = answer
        self._jobs: list[Job] = []
        self.asked: list[Job] = []
        self.child_count = 0

    def __call__(self, child_count: int) -> FakePool:
        self.child_count = child_count
        return self

    def __enter__(self) -> FakePool:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def kill(self) -> None:
        pass

    @property
    def is_idle(self) -> bool:
        return not self._jobs

    def add(self, job: Job) -> None:
        self._jobs.append(job)
        self.asked.append(job)

    def results(self, longest_s: float) -> list[Result]:
        return [self._answer(self._jobs.pop(0))]


def sound(job: Job) -> Result:
    return a_result(job, entries=ENTRIES if job.is_traced else ())


def failing(job: Job) -> Result:
    if job.shrinks:
        return a_result(job, problems=["lost write: x"], faults=["kill:2"], is_minimal=True)
    return a_result(job, problems=["lost write: x"] if job.seed % 2 else [])


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> FakePool:
    made = FakePool(getattr(request, "param", sound))
    monkeypatch.setattr(command, "Pool", made)
    monkeypatch.delenv("OTTLA_COMMAND", raising=False)
    return made


def test_seeds_are_run_and_summed_up(pool: FakePool, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--seeds", "3", "--first", "40", "--jobs", "2"]) == 0
    assert [job.seed for job in pool.asked] == [40, 41, 42]
    assert pool.child_count == 2
    printed = capsys.readouterr().out
    assert "elections     36      3" in printed
    assert "kills       none      0" in printed
    assert "none failed" in printed.splitlines()[-1]


def test_there_are_no_more_processes_than_seeds(pool: FakePool) -> None:
    assert main(["simulate", "--seed", "1", "--jobs", "8"]) == 0
    assert pool.child_count == 1


@pytest.mark.parametrize("pool", [failing], indirect=True)
def test_a_failing_seed_is_shrunk_and_told_with_its_replay(
    pool: FakePool, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", "--seeds", "2"]) == 1
    assert pool.asked[-1] == Job(1, shrinks=True)
    printed = capsys.readouterr().out
    assert "seed 1 failed: lost write: x" in printed
    assert "replay it: ottla simulate --seed 1 --faults kill:2 --trace" in printed
    assert "1 failed" in printed.splitlines()[-1]


@pytest.mark.parametrize("pool", [failing], indirect=True)
def test_only_the_first_failures_are_shrunk(pool: FakePool) -> None:
    assert main(["simulate", "--seeds", "20"]) == 1
    assert [job.seed for job in pool.asked if job.shrinks] == [1, 3, 5]


@pytest.mark.parametrize("pool", [failing], indirect=True)
def test_named_faults_are_run_as_they_are(pool: FakePool) -> None:
    assert main(["simulate", "--seed", "1", "--faults", "kill:1, kill:2"]) == 1
    assert pool.asked == [Job(1, ("kill:1", "kill:2"))]


def test_no_faults_at_all(pool: FakePool) -> None:
    assert main(["simulate", "--seed", "1", "--faults", "none"]) == 0
    assert pool.asked == [Job(1, ())]


def test_a_fault_that_did_not_take_place_is_told(
    pool: FakePool, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", "--seed", "1", "--faults", "kill:1,klil:2"]) == 0
    assert capsys.readouterr().err == "ottla: did not take place: klil:2\n"


def test_a_trace_and_a_page(
    pool: FakePool, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    page = tmp_path / "run.html"
    assert main(["simulate", "--seed", "7", "--trace", "--page", str(page)]) == 0
    printed = capsys.readouterr().out
    assert printed.splitlines()[0] == str(ENTRIES[0])
    assert "seed 7: ok, 3 faults, trace hash hash-of-7" in printed
    assert "is killed" in page.read_text()


def test_a_page_that_cannot_be_written(pool: FakePool, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--seed", "7", "--page", "/no/such/folder/run.html"]) == 1
    assert "could not write /no/such/folder/run.html" in capsys.readouterr().err


@pytest.mark.parametrize("pool", [failing], indirect=True)
def test_json(pool: FakePool, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--seeds", "2", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["seeds"] == 2
    assert [each["seed"] for each in found["failed"]] == [1]
    assert "hash" not in found


def test_json_of_one_seed(pool: FakePool, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--seed", "7", "--trace", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["hash"] == "hash-of-7"
    assert found["trace"] == [
        {"time_s": 1.5, "host": "broker1", "mark": "ended", "text": "is killed"}
    ]


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (["--trace"], "need one --seed"),
        (["--faults", "kill:1", "--seeds", "2"], "need one --seed"),
        (["--seed", "1", "--seeds", "2"], "leave out --seeds"),
        (["--seed", "1", "--first", "2"], "leave out --seeds"),
    ],
)
def test_options_that_do_not_go_together(
    args: list[str], problem: str, pool: FakePool, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", *args]) == 2
    assert problem in capsys.readouterr().err
    assert pool.asked == []


@pytest.mark.parametrize("pool", [failing], indirect=True)
def test_what_was_found_until_it_was_stopped_is_told(
    pool: FakePool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stop = Event()
    results = pool.results

    def stopping_results(longest_s: float) -> list[Result]:
        if len(pool.asked) - len(pool._jobs) == 2:
            stop.set()
        return results(longest_s)

    class Stoppable:
        def __enter__(self) -> Event:
            return stop

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr(pool, "results", stopping_results)
    monkeypatch.setattr(command, "stoppable", Stoppable)
    assert main(["simulate", "--seeds", "50"]) == 130
    out, err = capsys.readouterr()
    assert "seed 1 failed" in out
    assert "until it was stopped: " in err
    assert "of 50 seeds" in err
