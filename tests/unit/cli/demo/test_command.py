"""`ottla demo`: what it asks for. tests/compat and tests/pipeline run the whole of it."""

from __future__ import annotations

from pathlib import Path
from threading import Event
from typing import Any

import pytest
from click.testing import CliRunner

from ottla.cli.demo import command
from ottla.cli.demo.run import Wanted
from ottla.cli.errors import Failure

MISSING = "pipelines need Spark: pip install 'ottla[pipeline]'"


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[Wanted]:
    found: list[Wanted] = []

    def run(_broker: object, wanted: Wanted, _stop: Event) -> int:
        found.append(wanted)
        return 0

    class NoBroker:
        def __enter__(self) -> Any:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def end(self) -> None:
            pass

    monkeypatch.setattr(command, "run", run)
    monkeypatch.setattr(command, "ChildBroker", NoBroker)
    monkeypatch.setattr(command, "need_extra", lambda: None)
    return found


def demo(*args: str) -> str:
    done = CliRunner().invoke(command.command, args, catch_exceptions=False)
    return done.stderr


def test_what_is_asked_for(ran: list[Wanted]) -> None:
    assert demo() == ""
    demo("--small", "--seconds", "3", "--rate", "10", "--page", "here.html")

    assert ran == [
        Wanted(None, 500, None, is_small=False),
        Wanted(3.0, 10, Path("here.html"), is_small=True),
    ]


def test_without_the_extra_it_is_the_small_one(
    ran: list[Wanted], monkeypatch: pytest.MonkeyPatch
) -> None:
    def need_extra() -> None:
        raise Failure(MISSING)

    monkeypatch.setattr(command, "need_extra", need_extra)

    assert demo() == f"ottla: there is more to see with the pipeline, but {MISSING}\n"
    assert demo("--small") == ""
    assert [wanted.is_small for wanted in ran] == [True, True]
