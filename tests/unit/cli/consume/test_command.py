"""`ottla consume`: its options. tests/compat tries it on brokers."""

from __future__ import annotations

import pytest

from ottla.cli.main import main


@pytest.mark.parametrize(
    "args",
    [
        ["-b", "-o", "1"],
        ["-g", "g", "-o", "1"],
        ["-g", "g", "--from-timestamp", "1"],
        ["-g", "g", "-p", "0"],
        ["--json", "--format", "%s"],
        ["--json", "--keys"],
        ["--json", "--pretty"],
        ["--format", "%s", "--meta"],
        ["--format", "%x"],
        ["--key-regex", "("],
        ["-p", "-1"],
    ],
    ids=" ".join,
)
def test_contradictions_are_usage_errors(
    args: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["consume", "t", *args]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_topic_must_be_named() -> None:
    assert main(["consume"]) == 2
