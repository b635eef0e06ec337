"""`ottla cluster`: what it prints of what it was told. tests/compat tries it on brokers."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from rich.console import Console

from ottla.cli.client import Cluster
from ottla.cli.cluster import command
from ottla.cli.cluster.command import drawn, health_of, hint_for
from ottla.cli.main import main

FOUND: dict[str, Any] = {
    "cluster_id": "4tNo06p7QbyXICe_1sk_OQ",
    "controller_id": 1,
    "brokers": [
        {
            "id": id,
            "host": "localhost",
            "port": 9091 + id,
            "rack": None,
            "is_controller": id == 1,
            "software": "Ottla",
            "version": "0.1.0",
            "leads": 1000,
            "replicas": 2001,
            "size_bytes": 1_500_000,
            "counters": {"elections": 3},
        }
        for id in (1, 2)
    ],
    "missing_brokers": [],
    "topics": 1002,
    "internal_topics": 2,
    "partitions": 2000,
    "groups": 7,
    "size_bytes": 3_000_000,
    "problems": {"offline": 0, "under-replicated": 0, "under-min-isr": 0},
}


@pytest.fixture(autouse=True)
def told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Cluster, "admin", lambda _: None)
    monkeypatch.setattr(command, "described_cluster", lambda *_: FOUND)


def test_one_screen(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cluster"]) == 0
    assert capsys.readouterr().out == (
        "Cluster 4tNo06p7QbyXICe_1sk_OQ\n"
        "software    Ottla 0.1.0\n"
        "topics      1,002, 2 internal\n"
        "partitions  2,000\n"
        "groups      7\n"
        "size        3.0 MB\n"
        "health      ok\n"
        "\n"
        "BROKER  ADDRESS         RACK  CONTROLLER  LEADS  REPLICAS    SIZE\n"
        "     1  localhost:9092  -     yes         1,000     2,001  1.5 MB\n"
        "     2  localhost:9093  -                 1,000     2,001  1.5 MB\n"
    )


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cluster", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == FOUND


@pytest.mark.parametrize(
    ("problems", "missing", "text"),
    [
        ({}, [], "ok"),
        ({"offline": 2, "under-replicated": 3}, [], "2 offline, 3 under-replicated"),
        ({"not on preferred leader": 3}, [], "3 not on preferred leader"),
        ({"under-replicated": 3}, [2], "3 under-replicated; broker 2 is missing"),
        ({}, [2, 3], "brokers 2, 3 are missing"),
    ],
)
def test_health(problems: dict[str, int], missing: list[int], text: str) -> None:
    assert health_of({"problems": problems, "missing_brokers": missing}) == text


@pytest.mark.parametrize(
    ("problems", "hint"),
    [
        ({"offline": 0, "not on preferred leader": 0}, None),
        ({"offline": 0, "not on preferred leader": 2}, "elect-leaders"),
        ({"offline": 1, "not on preferred leader": 2}, "topics describe --unhealthy --internal"),
    ],
)
def test_what_to_run_next(problems: dict[str, int], hint: str | None) -> None:
    assert hint_for(problems) == hint


def test_watch(capsys: pytest.CaptureFixture[str]) -> None:
    watch = ["cluster", "--watch", "--interval", "0.1", "--samples", "2"]
    assert main(watch) == 0
    lines = capsys.readouterr().out.splitlines()
    line = "2 brokers  1002 topics  2000 partitions  7 groups  3.0 MB  ok"
    assert [text.partition("  ")[2] for text in lines] == [line, line]
    assert main([*watch, "--json"]) == 0
    samples = [json.loads(text) for text in capsys.readouterr().out.splitlines()]
    assert [sample.pop("time")[-1] for sample in samples] == ["Z", "Z"]
    assert samples == [FOUND, FOUND]


def test_what_a_terminal_shows_while_it_goes_on() -> None:
    console = Console(file=io.StringIO(), width=60)
    console.print(drawn(FOUND, 60))

    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert "Cluster 4tNo06p7QbyXICe_1sk_OQ" in text
    assert "health      ok" in text
    assert "localhost:9093" in text
