from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ottla.pipeline.run.user_cache import cache_folder, cached_command


def test_where_a_system_has_such_things(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    assert cache_folder() == tmp_path / ".cache" / "ottla"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert cache_folder() == tmp_path / "Library" / "Caches" / "ottla"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "mine"))
    assert cache_folder() == tmp_path / "mine" / "ottla"
    assert cache_folder().stat().st_mode & 0o77 == 0


def test_a_command_is_written_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = cached_command("greeting", "bin/hello", "#!/bin/sh\necho hello $1\n")
    assert subprocess.check_output([path, "you"], text=True) == "hello you\n"
    written = path.stat()
    assert written.st_mode & 0o777 == 0o700
    assert cached_command("greeting", "bin/hello", "#!/bin/sh\necho hello $1\n") == path
    assert path.stat().st_mtime_ns == written.st_mtime_ns
    assert [one.name for one in path.parent.iterdir()] == ["hello"]
    assert cached_command("greeting", "bin/hello", "#!/bin/sh\n") != path
