"""`ottla pipeline show`; tests/pipeline tries it on what a pipeline wrote."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ottla.cli.main import main
from ottla.cli.pipeline import show
from ottla.cli.pipeline.results.read import Read

RATE = {"minute": "2026-01-01T08:00:00.000Z", "service": "cart", "lines": 9, "errors": 3}
SHOW = ["pipeline", "show", "logs", "--lake", "/no/lake"]


def told(monkeypatch: pytest.MonkeyPatch, *values: Any, missing: bool = False) -> None:
    def read_results(_: Any, topics: list[str]) -> Read:
        return Read({topics[0]: list(values)}, topics if missing else [], is_whole=False)

    monkeypatch.setattr(show, "read_results", read_results)


def test_results_are_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told(monkeypatch, RATE | {"rate": 1 / 3})

    assert main(SHOW) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[0] == "logs"
    assert out.splitlines()[2].split()[:4] == ["cart", "9", "3", "33.3%"]
    assert "only the newest 20,000 records" in err
    assert main([*SHOW, "--json", "--output-prefix", "mine-"]) == 0
    assert json.loads(capsys.readouterr().out)["services"][0]["errors"] == 3


def test_nothing_yet_and_nothing_there(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told(monkeypatch)
    assert main(SHOW) == 0
    assert capsys.readouterr().out.startswith("No results yet.")
    told(monkeypatch, missing=True)
    assert main([*SHOW, "--output-prefix", "mine-"]) == 1
    assert "there is no topic 'mine-logs-error-rates'" in capsys.readouterr().err
