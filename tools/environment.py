"""Brings .venv to what the lock files say. Run by ./ottla and ./test, with the standard library
only, since there is nothing else yet."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
import time
from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent
_VENV = _ROOT / ".venv"
_PYTHON = _VENV / "bin" / "python"

# What each profile includes: each lock is made on top of the one before.
_PROFILES = {
    "run": ["run"],
    "pipeline": ["run", "pipeline"],
    "dev": ["run", "pipeline", "dev"],
}


def main() -> None:
    profile = sys.argv[1]
    cache = _ROOT / ".cache"
    cache.mkdir(exist_ok=True)
    with open(cache / "environment.lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say("waiting for another set-up of .venv to end")
            fcntl.flock(lock, fcntl.LOCK_EX)
        if not _is_current(profile):
            _set_up(profile)


def _set_up(profile: str) -> None:
    start_s = time.monotonic()
    uv = shutil.which("uv")
    version = ".".join(map(str, sys.version_info[:3]))
    _say(f"setting up .venv with {'uv' if uv else 'venv and pip'}, Python {version}")
    # Without any stamp it was begun and never finished, or is not ours.
    if not _is_runnable() or not any(_stamp(name).exists() for name in _PROFILES):
        shutil.rmtree(_VENV, ignore_errors=True)
        if uv:
            _run(uv, "venv", "--quiet", "--python", sys.executable, str(_VENV))
        else:
            _run(sys.executable, "-m", "venv", str(_VENV))
    for name in _PROFILES:
        _stamp(name).unlink(missing_ok=True)
    install = install_command(str(_PYTHON))
    lock = _lock_file(profile)
    _say(f"installing {lock.relative_to(_ROOT)}")
    _run(*install, "--require-hashes", "--requirement", str(lock))
    _say("installing ottla itself, as a link to its source")
    _run(*install, "--no-deps", "--editable", str(_ROOT))
    for name in _PROFILES[profile]:
        _stamp(name).write_bytes(_expected_stamp(name))
    _say(f"ready after {time.monotonic() - start_s:.0f} s")


def install_command(python: str) -> list[str]:
    """Of packages, whose names and options follow. An environment that uv has made has no pip."""
    if uv := shutil.which("uv"):
        return [uv, "pip", "install", "--quiet", "--python", python]
    return [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]


def _is_current(profile: str) -> bool:
    stamp = _stamp(profile)
    return _is_runnable() and stamp.exists() and stamp.read_bytes() == _expected_stamp(profile)


def _is_runnable() -> bool:
    """The Python that it was made from may be gone by now."""
    return _PYTHON.exists()


def _stamp(profile: str) -> Path:
    return _VENV / f"ottla-{profile}.stamp"


def _expected_stamp(profile: str) -> bytes:
    """The same bytes as environment.sh compares with. The folder is in it because the link to
    the source is absolute: a moved clone is set up anew."""
    pyproject = (_ROOT / "pyproject.toml").read_bytes()
    return f"{_ROOT}\n".encode() + pyproject + _lock_file(profile).read_bytes()


def _lock_file(profile: str) -> Path:
    return _ROOT / "requirements" / f"{profile}.txt"


def _run(*command: str) -> None:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, cwd=_ROOT)
    if done.returncode != 0:
        _say(f"set-up failed: {' '.join(command)} ended with {done.returncode}")
        sys.exit(1)


def _say(text: str) -> None:
    print(f"ottla: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
