"""What is kept between runs, in the user's folder for such things. All of it may be deleted."""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import stat
import sys
import tempfile
from pathlib import Path


def cache_folder() -> Path:
    """Only this user's: what lies in it is run. Raises OSError where there can be none."""
    default = "~/Library/Caches" if sys.platform == "darwin" else "~/.cache"
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser(default)
    folder = Path(base) / "ottla"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    is_writable_by_others = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or is_writable_by_others:
        raise PermissionError(f"{folder} is not this user's alone")
    return folder


def cached_command(kind: str, name: str, text: str) -> Path:
    """A script, at `name` in a folder that is named after what it says: that of another environment
    is another, and stays as it is. Raises OSError where nothing can be kept."""
    folder = cache_folder() / f"{kind}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    path = folder / name
    if not path.is_file():
        _write_command(path, text)
    return path


def temporary_command(name: str, text: str) -> Path:
    """Like a cached one, where nothing can be kept: until this process ends."""
    folder = tempfile.mkdtemp(prefix="ottla-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = Path(folder) / name
    _write_command(path, text)
    return path


def _write_command(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # Whole or not there: another process may be about to run it.
    handle, temporary = tempfile.mkstemp(dir=path.parent)
    with open(handle, "w") as script:
        script.write(text)
    os.chmod(temporary, 0o700)
    os.replace(temporary, path)
