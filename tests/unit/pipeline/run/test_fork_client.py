"""What it does without a server. With one it is in test_fork_server.py."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ottla.pipeline.run import fork_client
from ottla.pipeline.run.fork_client import ADDRESS, run


def test_nobody_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ADDRESS, raising=False)
    assert run(["-m", "json.tool"]) is None
    monkeypatch.setenv(ADDRESS, "ottla-nobody")
    assert run(["-m", "json.tool"]) is None


def test_it_needs_nothing_that_is_installed() -> None:
    """It has to be there at once."""
    done = subprocess.run(
        [sys.executable, "-IS", fork_client.__file__, "-m", "json.tool"],
        input='{"a": 1}',
        env={},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == '{\n    "a": 1\n}\n'
