"""`./test` leaves nothing out."""

from __future__ import annotations

from pathlib import Path

from tests.support.run import _LANES

TESTS = Path(__file__).resolve().parents[2]


def test_every_folder_of_tests_is_in_one_lane() -> None:
    lanes = [name for names in _LANES.values() for name in names]
    assert sorted(lanes) == sorted(
        {path.relative_to(TESTS).parts[0] for path in TESTS.rglob("test_*.py")}
    )
