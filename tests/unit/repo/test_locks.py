"""The lock files agree with pyproject.toml and with each other, and name nobody's machine."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[3]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_everything_asked_for_is_locked_within_its_bounds() -> None:
    _assert_locked(PYPROJECT["project"]["dependencies"], _locked("run"))
    _assert_locked(PYPROJECT["project"]["dependencies"], _locked("dev"))
    _assert_locked(PYPROJECT["dependency-groups"]["dev"], _locked("dev"))
    _assert_locked(PYPROJECT["project"]["optional-dependencies"]["pipeline"], _locked("pipeline"))


def test_tests_run_on_the_versions_that_users_run() -> None:
    assert _locked("run").items() <= _locked("pipeline").items() <= _locked("dev").items()


def test_every_dependency_is_bounded_on_both_sides() -> None:
    asked = [*PYPROJECT["project"]["dependencies"], *PYPROJECT["dependency-groups"]["dev"]]
    asked += PYPROJECT["project"]["optional-dependencies"]["pipeline"]
    asked += PYPROJECT["build-system"]["requires"]
    for text in asked:
        operators = {specifier.operator for specifier in Requirement(text).specifier}
        assert operators == {">=", "<"}, text


def test_locks_have_hashes_and_no_addresses() -> None:
    for name in ("run", "pipeline", "dev"):
        text = (ROOT / "requirements" / f"{name}.txt").read_text()
        assert not re.search(r"https?:|file:|--index|--find-links|/home/|/Users/", text), name
        assert text.count("--hash=sha256:") > len(_locked(name))


def _assert_locked(asked: list[str], locked: dict[str, Version]) -> None:
    for text in asked:
        requirement = Requirement(text)
        assert locked[requirement.name] in requirement.specifier, text


def _locked(name: str) -> dict[str, Version]:
    text = (ROOT / "requirements" / f"{name}.txt").read_text()
    return {
        found["name"]: Version(found["version"])
        for found in re.finditer(r"^(?P<name>[a-z0-9-]+)==(?P<version>\S+)", text, re.MULTILINE)
    }
