"""`ottla topics create`; tests/compat tries it on brokers."""

from __future__ import annotations

import pytest

from ottla.cli.main import main


def test_more_replicas_than_any_cluster_has_are_one_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["topics", "create", "clicks", "-r", "100000"]) == 2
    err = capsys.readouterr().err
    assert "100000 is not in the range" in err
    assert err.count("\n") == 1
