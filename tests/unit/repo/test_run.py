"""`./test` leaves nothing out."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.support.other_pythons import other_pythons, requirements, unit_tests
from tests.support.run import _LANES

TESTS = Path(__file__).resolve().parents[2]


def test_every_folder_of_tests_is_in_one_lane() -> None:
    lanes = [name for names in _LANES.values() for name in names]
    assert sorted(lanes) == sorted(
        {path.relative_to(TESTS).parts[0] for path in TESTS.rglob("test_*.py")}
    )


def test_other_pythons_get_pytest_and_no_spark() -> None:
    packages = {line.partition("==")[0] for line in requirements().splitlines() if "==" in line}
    assert {"pytest", "hypothesis", "confluent-kafka", "uvloop"} <= packages
    assert not {"pyspark", "numpy", "mypy"} & packages


def test_other_pythons_run_what_needs_no_spark() -> None:
    folder, *ignored = unit_tests()
    assert folder == "tests/unit"
    assert "--ignore=tests/unit/cli/pipeline/test_run.py" in ignored
    assert "--ignore=tests/unit/test_broker.py" not in ignored


def test_the_python_that_runs_the_tests_is_not_another_one() -> None:
    assert f"{sys.version_info.major}.{sys.version_info.minor}" not in other_pythons()
