from __future__ import annotations

import pytest

from ottla.cli.simulate.job import Job
from ottla.cli.simulate.tally import Tally, failure_text
from tests.unit.cli.simulate.fakes import a_result


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTTLA_COMMAND", raising=False)


def test_what_was_exercised_is_added_up_and_nothing_is_said_as_none() -> None:
    tally = Tally()
    for seed in range(3):
        tally.add(a_result(Job(seed)))
    assert tally.seed_count == 3
    assert tally.rows() == [("elections", "36", "3"), ("kills", "none", "0")]
    assert tally.fields(1.5) == {
        "seeds": 3,
        "seconds": 1.5,
        "failed": [],
        "exercised": {"elections": {"count": 36, "seeds": 3}, "kills": {"count": 0, "seeds": 0}},
    }


def test_a_failure_names_the_command_that_replays_it() -> None:
    tally = Tally()
    tally.add(a_result(Job(17), problems=["lost write: x", "unseen: y"]))
    assert failure_text(tally.failed[17]).splitlines() == [
        "seed 17 failed (and 1 more): lost write: x",
        "  trace hash: hash-of-17",
        "  replay it: ottla simulate --seed 17 --trace",
    ]


def test_with_the_faults_that_are_left_of_it() -> None:
    tally = Tally()
    tally.add(a_result(Job(17), problems=["lost write: x"]))
    shrunk = a_result(
        Job(17, shrinks=True), problems=["a\ntraceback"], faults=["kill:2"], is_minimal=True
    )
    tally.add(shrunk)
    assert tally.seed_count == 1
    assert tally.counts["elections"] == 12, "runs to shrink a seed are no seeds"
    assert failure_text(tally.failed[17]).splitlines() == [
        "seed 17 failed: a",
        "  traceback",
        "  faults: 1 of 3, the fewest that still fail; 9 runs to find them",
        "  trace hash: hash-of-17",
        "  replay it: ottla simulate --seed 17 --faults kill:2 --trace",
    ]
    assert tally.fields(1)["failed"] == [
        {
            "seed": 17,
            "problems": ["a\ntraceback"],
            "faults": ["kill:2"],
            "hash": "hash-of-17",
            "replay": "ottla simulate --seed 17 --faults kill:2 --trace",
        }
    ]


def test_no_fault_at_all_and_faults_that_were_named_can_be_replayed_as_well() -> None:
    tally = Tally()
    tally.add(a_result(Job(1), problems=["x"]))
    tally.add(a_result(Job(1, shrinks=True), problems=["x"], faults=[]))
    assert "--seed 1 --faults none --trace" in failure_text(tally.failed[1])
    tally.add(a_result(Job(2, ("kill:1", "kill:2")), problems=["x"]))
    assert "--seed 2 --faults kill:1,kill:2 --trace" in failure_text(tally.failed[2])
