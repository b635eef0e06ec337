"""`ottla topics alter`; tests/compat tries it on brokers."""

from __future__ import annotations

import pytest

from ottla.cli.main import main


def test_altering_nothing_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topics", "alter", "clicks"]) == 2
    assert "nothing to alter" in capsys.readouterr().err
