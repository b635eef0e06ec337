from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest

from ottla.cli.errors import Failure
from ottla.cli.simulate.job import Job, Result
from ottla.cli.simulate.pool import Pool

# A child that runs nothing: it answers in two pieces, and dies of seed 13.
CHILD = """
import json, sys
for line in sys.stdin:
    job = json.loads(line)
    if job["seed"] == 13:
        sys.exit(3)
    result = dict(job=job, problems=[], digest=str(job["seed"]), faults=[], exercised={},
        run_count=1, is_minimal=False, entries=[])
    text = json.dumps(result) + "\\n"
    for piece in (text[:10], text[10:]):
        sys.stdout.write(piece)
        sys.stdout.flush()
"""


@pytest.fixture(autouse=True)
def _children(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    popen = subprocess.Popen

    def start(command: list[str], **kwargs: object) -> object:
        return popen([sys.executable, "-c", CHILD], **kwargs)  # type: ignore[call-overload]

    monkeypatch.setattr(subprocess, "Popen", start)
    before = set(psutil.Process().children())
    yield
    assert set(psutil.Process().children()) <= before, "none is left behind"


def all_results(pool: Pool) -> list[Result]:
    found = []
    while not pool.is_idle:
        found += pool.results(10)
    return found


def test_each_job_has_its_result() -> None:
    with Pool(2) as pool:
        assert pool.is_idle
        for seed in range(5):
            pool.add(Job(seed))
        assert not pool.is_idle
        found = all_results(pool)
    assert sorted(result.job.seed for result in found) == [0, 1, 2, 3, 4]
    assert {result.digest for result in found} == {"0", "1", "2", "3", "4"}


def test_a_job_may_come_of_a_result() -> None:
    with Pool(1) as pool:
        pool.add(Job(1))
        all_results(pool)
        pool.add(Job(2))
        assert [result.job.seed for result in all_results(pool)] == [2]


def test_a_child_that_dies_is_told_of() -> None:
    with Pool(1) as pool:
        pool.add(Job(13))
        with pytest.raises(Failure, match=r"seed 13 .* exit code 3"):
            all_results(pool)


def test_what_runs_is_killed_at_the_end() -> None:
    with Pool(1) as pool:
        pool.add(Job(1))
        pool.results(0)
        pool.kill()
