from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ottla.cli.errors import ExitCode, Failure
from ottla.cli.zookeeper import jars
from ottla.cli.zookeeper.jars import version_of, zookeeper_jars


def test_all_are_found_and_pyspark_is_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "pyspark" / "jars"
    folder.mkdir(parents=True)
    (tmp_path / "pyspark" / "__init__.py").touch()
    for name in jars._NAMES:
        (folder / f"{name}-3.9.5.jar").touch()
    (folder / "zookeeper-contrib-1.0.jar").touch()
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    found = zookeeper_jars()
    assert found == [f"{folder}/{name}-3.9.5.jar" for name in jars._NAMES]
    assert version_of(found) == "3.9.5"
    assert "pyspark" not in sys.modules


def test_without_pyspark_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jars, "find_spec", lambda name: None)
    with pytest.raises(Failure, match=r"pip install 'ottla\[pipeline\]'") as caught:
        zookeeper_jars()
    assert caught.value.exit_code == ExitCode.USAGE


def test_a_pyspark_without_zookeeper_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyspark" / "jars").mkdir(parents=True)
    (tmp_path / "pyspark" / "__init__.py").touch()
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    with pytest.raises(Failure, match=f"no zookeeper in {tmp_path}"):
        zookeeper_jars()
