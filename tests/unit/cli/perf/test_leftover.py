"""The topic that a measurement leaves behind."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.cli.errors import Failure
from ottla.cli.perf.leftover import DEFAULT_TOPIC, Leftover

KEPT = "topic t is kept; `ottla topics delete t` deletes it"


class FakeCluster:
    def __init__(self) -> None:
        self.deleted: list[str] = []

    def admin(self) -> Any:
        return SimpleNamespace(delete_topics=self._delete)

    def _delete(self, names: Sequence[str], **_: Any) -> dict[str, Future[None]]:
        self.deleted += names
        future: Future[None] = Future()
        future.set_result(None)
        return dict.fromkeys(names, future)


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


def leftover(
    cluster: Any, topic: str = "t", *, is_new: bool = True, is_deleted: bool | None = None
) -> Leftover:
    return Leftover(cluster, topic, is_new=is_new, is_deleted=is_deleted)


def answer(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Somebody is at the terminal, and says so."""
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("click.termui.visible_prompt_func", lambda _: text)


def test_in_a_pipe_it_is_kept_and_named(cluster: FakeCluster) -> None:
    assert leftover(cluster).settle(may_ask=True) == KEPT
    assert cluster.deleted == []


@pytest.mark.parametrize(("said", "deleted"), [("y", ["t"]), ("n", []), ("", [])])
def test_a_terminal_is_asked(
    said: str, deleted: list[str], cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(monkeypatch, said)

    text = leftover(cluster).settle(may_ask=True)
    assert text == ("deleted topic t" if deleted else KEPT)
    assert cluster.deleted == deleted


def test_what_was_said_before_is_not_asked(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(monkeypatch, "y")

    assert leftover(cluster, is_deleted=False).settle(may_ask=True) == KEPT
    assert leftover(cluster).settle(may_ask=False) == KEPT
    assert cluster.deleted == []
    assert leftover(cluster, is_deleted=True).settle(may_ask=False) == "deleted topic t"
    assert cluster.deleted == ["t"]


def test_only_topics_of_its_own_are_deleted(cluster: FakeCluster) -> None:
    assert leftover(cluster, is_new=False).settle(may_ask=True) == ""
    with pytest.raises(Failure, match="perf did not make t, so it does not delete it"):
        leftover(cluster, is_new=False, is_deleted=True)

    own = leftover(cluster, DEFAULT_TOPIC, is_new=False, is_deleted=True)
    assert own.settle(may_ask=False) == f"deleted topic {DEFAULT_TOPIC}"
