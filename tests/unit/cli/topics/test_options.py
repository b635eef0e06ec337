"""What `ottla topics create` and `alter` take alike."""

from __future__ import annotations

import pytest

from ottla.cli.main import main


@pytest.mark.parametrize("command", ["create", "alter"])
@pytest.mark.parametrize("count", ["0", "1000000", "99999999999999999999"])
def test_a_count_that_no_cluster_has_is_one_line(
    command: str, count: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["topics", command, "clicks", "-p", count]) == 2
    err = capsys.readouterr().err
    assert f"{count} is not in the range" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("command", ["create", "alter"])
def test_a_setting_has_a_name_and_a_value(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topics", command, "clicks", "-c", "retention.ms"]) == 2
    assert "'retention.ms' is not KEY=VALUE" in capsys.readouterr().err
