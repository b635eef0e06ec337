from __future__ import annotations

import atexit
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.pipeline.run.user_cache import cache_folder, cached_command, temporary_command


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


@pytest.mark.parametrize("mode", [0o770, 0o707])
def test_a_folder_that_others_write_to_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cache_folder().chmod(mode)
    with pytest.raises(PermissionError, match="not this user's alone"):
        cached_command("greeting", "hello", "#!/bin/sh\n")


def test_a_folder_of_others_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cache_folder()
    owner = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: owner + 1)
    with pytest.raises(PermissionError):
        cache_folder()


def test_a_link_to_elsewhere_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / "ottla").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PermissionError):
        cache_folder()


def test_a_temporary_command_goes_with_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    at_exit: list[Callable[[], None]] = []
    monkeypatch.setattr(
        atexit, "register", lambda do, *given, **named: at_exit.append(lambda: do(*given, **named))
    )
    path = temporary_command("bin/hello", "#!/bin/sh\necho hello $1\n")
    assert subprocess.check_output([path, "you"], text=True) == "hello you\n"
    at_exit[0]()
    assert not path.parents[1].exists()
