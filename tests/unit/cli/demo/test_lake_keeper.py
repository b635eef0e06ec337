"""A demo's lake stays small."""

from __future__ import annotations

import os
import time
from datetime import date, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from ottla.cli.demo import lake_keeper
from ottla.cli.demo.lake_keeper import DAYS_KEPT, LakeKeeper, tidy
from ottla.pipeline.lake.table import LakeTable

FIRST = date(2026, 1, 1)


def write_day(uri: Path, number: int) -> None:
    rows = pa.table({"n": [number], "day": [FIRST + timedelta(days=number)]})
    write_deltalake(uri, rows, mode="append", partition_by=["day"])


def make_old(folder: Path) -> None:
    """As if all that is there were two hours old."""
    then_s = time.time() - 7200
    for path in folder.rglob("*"):
        if path.is_file():
            os.utime(path, (then_s, then_s))


def test_days_that_are_long_over_go_and_what_the_log_says_of_them(tmp_path: Path) -> None:
    uri = tmp_path / "activity"
    for number in range(12):
        write_day(uri, number)
        write_day(uri, number)
        make_old(tmp_path)
        tidy(str(tmp_path))

    kept = sorted(row["n"] for row in DeltaTable(uri).to_pyarrow_table().to_pylist())
    assert kept == sorted(2 * list(range(12 - DAYS_KEPT, 12)))
    assert len(DeltaTable(uri).file_uris()) == DAYS_KEPT
    # Of each day there were a commit of its rows and one of what was deleted.
    assert len(list((uri / "_delta_log").glob("*.json"))) < 12


def test_an_empty_lake_is_left_alone(tmp_path: Path) -> None:
    tidy(str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_a_table_that_is_broken_keeps_no_other_from_being_tidied_and_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a-broken", "whole"):
        (tmp_path / name / "_delta_log").mkdir(parents=True)
    tidied: list[str] = []

    def tidy_table(table: LakeTable) -> None:
        if table.uri.endswith("a-broken"):
            raise PermissionError("not yours")
        tidied.append(table.uri)

    monkeypatch.setattr(lake_keeper, "_tidy_table", tidy_table)
    monkeypatch.setattr(lake_keeper, "_EVERY_S", 0.01)
    keeper = LakeKeeper(str(tmp_path))
    keeper.start()
    while len(tidied) < 2:
        time.sleep(0.01)
    keeper.stop()

    assert capsys.readouterr().err == (
        "ottla: the demo's lake grew: could not tidy a-broken: PermissionError: not yours\n"
    )


def test_it_tidies_from_time_to_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tidied: list[str] = []
    monkeypatch.setattr(lake_keeper, "_EVERY_S", 0.01)

    def tidy(root: str) -> list[str]:
        tidied.append(root)
        return []

    monkeypatch.setattr(lake_keeper, "tidy", tidy)
    keeper = LakeKeeper(str(tmp_path))
    keeper.start()
    while len(tidied) < 2:
        time.sleep(0.01)
    keeper.stop()

    assert set(tidied) == {str(tmp_path)}
