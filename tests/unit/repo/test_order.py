from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tests.support import order
from tests.support.order import TESTS, in_order, wanted

NAMES = [
    "property/test_p.py::1",
    "unit/a/test_a.py::1",
    "unit/a/test_a.py::2",
    "unit/test_b.py::1",
    "unit/test_b.py::2",
    "unit/test_c.py::1",
]


def arranged(how: str) -> list[str]:
    return in_order(NAMES, lambda name: TESTS / name.partition("::")[0], how)


def test_modules_and_their_tests_are_reversed_folder_by_folder() -> None:
    assert arranged("reverse") == [
        "property/test_p.py::1",
        "unit/test_c.py::1",
        "unit/test_b.py::2",
        "unit/test_b.py::1",
        "unit/a/test_a.py::2",
        "unit/a/test_a.py::1",
    ]


def test_a_shuffle_can_be_repeated_and_keeps_modules_together() -> None:
    shuffled = arranged("3")
    assert shuffled == arranged("3")
    assert sorted(shuffled) == sorted(NAMES)
    assert shuffled[0] == NAMES[0]
    modules = [name.partition("::")[0] for name in shuffled]
    assert all(
        before == after or after not in modules[:at]
        for at, (before, after) in enumerate(itertools.pairwise(modules), 1)
    )
    assert len({tuple(arranged(str(seed))) for seed in range(20)}) > 5


def test_another_order_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(order.VARIABLE, "backwards")
    with pytest.raises(ValueError, match="it can be reverse, or the number of a shuffle"):
        wanted()
    monkeypatch.delenv(order.VARIABLE)
    assert wanted() == ""


def test_what_lies_elsewhere_is_a_folder_of_its_own() -> None:
    paths = [Path("/elsewhere/test_x.py"), TESTS / "unit" / "test_b.py"]
    assert in_order(paths, lambda path: path, "reverse") == paths
