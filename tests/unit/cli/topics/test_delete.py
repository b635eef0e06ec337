"""`ottla topics delete`; tests/compat tries it on brokers."""

from __future__ import annotations

import pytest

from ottla.cli.main import main


def test_topics_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topics", "delete"]) == 2
    assert "missing argument 'NAME...'" in capsys.readouterr().err
