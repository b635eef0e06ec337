"""How a command fails."""

from __future__ import annotations

import pytest

from ottla.cli.errors import ExitCode, Failure, warn


def test_a_failure_ends_with_1_unless_told_otherwise() -> None:
    assert Failure("no").exit_code == 1
    assert Failure("no", ExitCode.USAGE).exit_code == 2


def test_a_warning_goes_to_standard_error_and_names_the_program(
    capsys: pytest.CaptureFixture[str],
) -> None:
    warn("something")

    assert capsys.readouterr() == ("", "ottla: something\n")
