"""`ottla topics delete`; tests/compat tries it on brokers."""

from __future__ import annotations

import pytest

from ottla.cli.client import Cluster
from ottla.cli.main import main


def test_topics_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topics", "delete"]) == 2
    assert "missing argument 'NAME...'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "lost"),
    [
        ("__consumer_offsets", "the committed offsets of all consumers"),
        ("__transaction_state", "the state of all transactions"),
    ],
)
def test_what_brokers_need_is_deleted_only_by_force(
    name: str, lost: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Cluster, "admin", lambda _: pytest.fail("asked a cluster"))

    assert main(["topics", "delete", "clicks", name, "--yes"]) == 1
    err = capsys.readouterr().err
    assert lost in err
    assert "--force" in err
    assert err.count("\n") == 1
