"""What is kept between runs, in the user's folder for such things. All of it may be deleted."""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from pathlib import Path


def cache_folder() -> Path:
    """Only this user's: what lies in it is run."""
    default = "~/Library/Caches" if sys.platform == "darwin" else "~/.cache"
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser(default)
    folder = Path(base) / "ottla"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def cached_command(kind: str, name: str, text: str) -> Path:
    """A script, at `name` in a folder that is named after what it says: that of another environment
    is another, and stays as it is."""
    folder = cache_folder() / f"{kind}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    path = folder / name
    if path.is_file():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    # Whole or not there: another process may be about to run it.
    handle, temporary = tempfile.mkstemp(dir=path.parent)
    with open(handle, "w") as script:
        script.write(text)
    os.chmod(temporary, 0o700)
    os.replace(temporary, path)
    return path
