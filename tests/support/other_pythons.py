"""The unit tests on every other Python from 3.11 on that this machine has. Without Spark: only what
the broker and its tools need is installed there, into .cache/, with the versions of the locks."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tools.environment import install_command

_ROOT = Path(__file__).resolve().parent.parent.parent
_CACHE = _ROOT / ".cache"
_OLDEST = (3, 11)

_TESTING = {
    *("hypothesis", "iniconfig", "kio", "packaging", "pluggy", "psutil", "pytest"),
    *("pytest-timeout", "sortedcontainers"),
}
"""Of requirements/dev.txt: pytest and what it needs."""

_NOT_INSTALLED = re.compile(
    r"\b(?:import|from) (?:ottla\.pipeline|pyspark|pyarrow|numpy|deltalake)"
)


def unit_tests() -> list[str]:
    """For pytest. Without those that need Spark or Arrow, and without tests/unit/repo, which is
    about files and not about Python."""
    folder = _ROOT / "tests" / "unit"
    left_out = [
        path
        for path in sorted(folder.rglob("test_*.py"))
        if not path.is_relative_to(folder / "pipeline") and _NOT_INSTALLED.search(path.read_text())
    ]
    without = [folder / "pipeline", folder / "repo", *left_out]
    return ["tests/unit", *(f"--ignore={path.relative_to(_ROOT)}" for path in without)]


def other_pythons() -> dict[str, Path]:
    """By version, such as 3.12: one of each that is not the one that runs this."""
    found: dict[str, Path] = {}
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    for candidate in _candidates():
        version = _version_of(candidate)
        if version is not None and version >= _OLDEST:
            found.setdefault(f"{version[0]}.{version[1]}", candidate)
    found.pop(own, None)
    return dict(sorted(found.items(), key=lambda item: int(item[0].partition(".")[2])))


def _candidates() -> Iterator[Path]:
    """Those on the PATH, then those that pyenv and uv have installed."""
    for minor in range(_OLDEST[1], 30):
        if command := shutil.which(f"python3.{minor}"):
            yield Path(command)
    for pattern in (".pyenv/versions/3.*/bin/python3", ".local/share/uv/python/*/bin/python3"):
        yield from sorted(Path.home().glob(pattern))


def _version_of(python: Path) -> tuple[int, int] | None:
    """Asked to run: a shim of pyenv may be there without its Python."""
    code = "import sys; print(*sys.version_info[:2]) if sys.version_info[3] == 'final' else None"
    done = subprocess.run(
        [python, "-c", code], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    numbers = done.stdout.split()
    return (int(numbers[0]), int(numbers[1])) if done.returncode == 0 and numbers else None


def environment_of(version: str, python: Path) -> Path:
    """Its Python. Made once, and anew when the locks change."""
    folder = _CACHE / f"python-{version}"
    own, stamp = folder / "bin" / "python", folder / "ottla.stamp"
    wanted = requirements()
    if own.exists() and stamp.exists() and stamp.read_text() == wanted:
        return own
    shutil.rmtree(folder, ignore_errors=True)
    if uv := shutil.which("uv"):
        make = [uv, "venv", "--quiet", "--python", str(python), str(folder)]
    else:
        make = [str(python), "-m", "venv", str(folder)]
    subprocess.run(make, stdin=subprocess.DEVNULL, check=True)
    locked = folder / "requirements.txt"
    locked.write_text(wanted)
    install = [*install_command(str(own)), "--no-deps", "--require-hashes"]
    subprocess.run([*install, "--requirement", locked], stdin=subprocess.DEVNULL, check=True)
    stamp.write_text(wanted)
    return own


def requirements() -> str:
    run, dev = (_locked(_ROOT / "requirements" / f"{name}.txt") for name in ("run", "dev"))
    return "".join(run.values()) + "".join(dev[name] for name in sorted(_TESTING - run.keys()))


def _locked(path: Path) -> dict[str, str]:
    """The lines of each package, with its hashes."""
    blocks = re.split(r"^(?=\w)", path.read_text(), flags=re.MULTILINE)[1:]
    found: dict[str, str] = {}
    for block in blocks:
        name = block.partition("==")[0]
        found[name] = found.get(name, "") + block
    return found
