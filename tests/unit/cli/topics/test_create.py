"""`ottla topics create`; tests/compat tries it on brokers."""

from __future__ import annotations

import pytest

from ottla.cli.main import main


def test_a_setting_has_a_name_and_a_value(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topics", "create", "clicks", "-c", "retention.ms"]) == 2
    assert "'retention.ms' is no KEY=VALUE" in capsys.readouterr().err
