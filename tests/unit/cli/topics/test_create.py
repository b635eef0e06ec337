"""`ottla topics create`; tests/compat tries it on brokers."""

from __future__ import annotations

import pytest

from ottla.cli.main import main


def test_a_setting_has_a_name_and_a_value(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topics", "create", "clicks", "-c", "retention.ms"]) == 2
    assert "'retention.ms' is no KEY=VALUE" in capsys.readouterr().err


@pytest.mark.parametrize(
    "args",
    [
        ["create", "clicks", "-p", "1000000"],
        ["create", "clicks", "-p", "99999999999999999999"],
        ["create", "clicks", "-p", "0"],
        ["create", "clicks", "-r", "100000"],
        ["alter", "clicks", "-p", "1000000"],
    ],
    ids=" ".join,
)
def test_counts_that_no_cluster_has_are_one_line(
    args: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["topics", *args]) == 2
    err = capsys.readouterr().err
    assert f"{args[-1]} is not in the range" in err
    assert err.count("\n") == 1
