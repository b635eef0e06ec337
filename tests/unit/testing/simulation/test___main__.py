from __future__ import annotations

import pytest

from ottla.testing.simulation.__main__ import main


def test_a_seed_is_run_and_told_of(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["100", "--trace"]) == 0
    printed = capsys.readouterr().out
    assert "seed 100 (" in printed
    assert "broker 1 has started" in printed
