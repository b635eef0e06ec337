"""Brings .venv to what the lock files say. Run by ./ottla and ./test, with the standard library
only, since there is nothing else yet."""

from __future__ import annotations

import signal

if __name__ == "__main__":
    # Until there is more to do than to end, and in silence: what follows takes a moment.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

import fcntl
import os
import re
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

_ROOT = Path(__file__).resolve().parent.parent
_VENV = _ROOT / ".venv"
_PYTHON = _VENV / "bin" / "python"
_PREPARE_TIMEOUT_S = 300
_TIDY_TIMEOUT_S = 5
_STARTS_OVER = "set-up interrupted; the next run starts over"
_NOT_PREPARED = "Spark is not prepared and starts slower; to try again: ./ottla pipeline prepare"


class Profile(NamedTuple):
    includes: list[str]
    """Each lock is made on top of the one before."""
    what: str
    download_mb: int
    """Of wheels for Linux on x86-64; those of other platforms are about as large."""
    disk_mb: int


PROFILES = {
    "run": Profile(["run"], "Ottla's dependencies", 15, 45),
    "pipeline": Profile(["run", "pipeline"], "Spark, a Java for it and Arrow", 650, 1100),
    "dev": Profile(["run", "pipeline", "dev"], "Spark and the tools of the tests", 750, 1500),
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
    if not _is_runnable() or not any(_stamp(name).exists() for name in PROFILES):
        shutil.rmtree(_VENV, ignore_errors=True)
        if uv:
            _run(uv, "venv", "--quiet", "--python", sys.executable, str(_VENV))
        else:
            _run(sys.executable, "-m", "venv", str(_VENV))
    elif not uv and not any(_VENV.glob("lib/python*/site-packages/pip")):
        _run(str(_PYTHON), "-m", "ensurepip")  # made by uv, which is not on the PATH now
    for name in PROFILES:
        _stamp(name).unlink(missing_ok=True)
    _install_locked(profile)
    _say("installing ottla itself, as a link to its source")
    _run(*install_command(str(_PYTHON)), "--no-deps", "--editable", str(_ROOT))
    for name in PROFILES[profile].includes:
        _stamp(name).write_bytes(_expected_stamp(name))
    # All is there by now: whoever does not wait for this need not download it again.
    if "pipeline" in PROFILES[profile].includes:
        _prepare_spark()
    _say(f"ready after {time.monotonic() - start_s:.0f} s")


def _install_locked(profile: str) -> None:
    lock = _lock_file(profile)
    _, what, download_mb, disk_mb = PROFILES[profile]
    _say(
        f"installing {what} ({lock.relative_to(_ROOT)}): "
        f"up to {download_mb} MB to download, {disk_mb} MB on disk"
    )
    command = [*install_command(str(_PYTHON), quiet=False), "--require-hashes"]
    command += ["--requirement", str(lock)]
    progress = _Progress()
    output = b""
    script = os.getppid()
    with _child(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        assert process.stdout is not None
        try:
            # When only the script is ended, by `kill`, nobody waits for this any more.
            while os.getppid() == script:
                if not select.select([process.stdout], [], [], 0.5)[0]:
                    progress.draw()
                elif chunk := os.read(process.stdout.fileno(), 1 << 16):
                    output += chunk
                    progress.read(chunk)
                else:
                    break
            else:
                os.kill(os.getpid(), signal.SIGTERM)
        finally:
            progress.clear()
    if process.returncode != 0:
        sys.stderr.write(output.decode(errors="replace"))
        _fail(command, process.returncode)


def _prepare_spark() -> None:
    """Without, it starts as well, and takes twice as long for it."""
    _say(
        "preparing Spark to start in half the time: up to a minute, once, "
        "and 180 MB in your cache folder"
    )
    command = (str(_PYTHON), "-P", "-m", "ottla", "pipeline", "prepare")
    script, deadline_s = os.getppid(), time.monotonic() + _PREPARE_TIMEOUT_S
    with _child(command, _NOT_PREPARED, _TIDY_TIMEOUT_S, stdout=sys.stderr) as process:
        while process.poll() is None:
            if os.getppid() != script:
                os.kill(os.getpid(), signal.SIGTERM)
            if time.monotonic() > deadline_s:
                process.terminate()
            time.sleep(0.05)
    if process.returncode != 0:
        _say(_NOT_PREPARED)


class _Progress:
    """What the installer is at. On a terminal one line with a clock; else a line for each large
    package. Lives as long as one installer."""

    # uv: "Downloading pyarrow (52.5MiB)", "Building pyspark==4.3.0", "Prepared 14 packages in 23s"
    # pip: "Downloading pyspark-4.3.0.tar.gz (455.9 MB)", "Building wheel for pyspark (...)"
    # What is measured in kB is not worth a line.
    _STEPS = (
        (
            r"Downloading ([A-Za-z][\w-]*?)(?:-\d\S*)? \(([\d.]+) ?([MG]i?B)\)",
            "downloading {} ({} {})",
        ),
        # uv says so of wheels only, and Spark comes as a source archive.
        (r"^ *Downloaded ", "downloading the rest"),
        (r"Building (?:wheel for )?(?!wheels )([A-Za-z][\w-]*)", "building {}"),
        (r"Installing collected packages|Prepared \d+ package", "installing into .venv"),
    )

    def __init__(self) -> None:
        self._start_s = time.monotonic()
        self._is_terminal = sys.stderr.isatty()
        self._rest = ""
        self._step = ""

    def read(self, chunk: bytes) -> None:
        *lines, self._rest = (self._rest + chunk.decode(errors="replace")).split("\n")
        for line in lines:
            step = self._step_of(line)
            if step is not None and step != self._step:
                self._step = step
                if not self._is_terminal:
                    _say(step)
        self.draw()

    def draw(self) -> None:
        if not self._is_terminal:
            return
        minutes, seconds = divmod(int(time.monotonic() - self._start_s), 60)
        columns = shutil.get_terminal_size().columns
        text = f"ottla: {minutes}:{seconds:02} {self._step or 'looking up packages'}"
        sys.stderr.write(f"\r\x1b[K{text[: columns - 1]}")
        sys.stderr.flush()

    def clear(self) -> None:
        if self._is_terminal:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def _step_of(self, line: str) -> str | None:
        for pattern, text in self._STEPS:
            if found := re.search(pattern, line):
                return text.format(*found.groups())
        return None


def install_command(python: str, *, quiet: bool = True) -> list[str]:
    """Of packages, whose names and options follow. An environment that uv has made has no pip."""
    if uv := shutil.which("uv"):
        command = [uv, "pip", "install", "--python", python]
    else:
        command = [python, "-m", "pip", "install", "--disable-pip-version-check"]
    return [*command, "--quiet"] if quiet else command


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
    with _child(command) as process:
        process.wait()
    if process.returncode != 0:
        _fail(command, process.returncode)


@contextmanager
def _child(
    command: Sequence[str], interrupted: str = _STARTS_OVER, tidy_s: float = 0, **streams: Any
) -> Iterator[subprocess.Popen[bytes]]:
    """Is killed when this process is interrupted, which says `interrupted` then. One that leaves
    files behind gets `tidy_s` to remove them first, or until the next Ctrl-C. It is in a group of
    its own, for it would have something to say of Ctrl-C too."""
    signals: list[object] = []
    _on_signals(lambda *_: signals.append(_))  # Until it is known whom to kill.
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, cwd=_ROOT, process_group=0, **streams
    ) as process:

        def kill(*_: object) -> NoReturn:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            _end(interrupted)

        def end(*_: object) -> NoReturn:
            if tidy_s:
                _on_signals(kill)
                process.terminate()
                with suppress(subprocess.TimeoutExpired):
                    process.wait(tidy_s)
            kill()

        _on_signals(end)
        try:
            if signals:
                end()
            yield process
        finally:
            _on_signals(_interrupted)


def _on_signals(handler: Callable[..., object]) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, handler)


def _interrupted(*_: object) -> NoReturn:
    _end(_STARTS_OVER)


def _end(text: str) -> NoReturn:
    clear = "\r\x1b[K" if sys.stderr.isatty() else ""
    os.write(sys.stderr.fileno(), f"{clear}ottla: {text}\n".encode())
    os._exit(130)


def _fail(command: Sequence[str], exit_code: int) -> NoReturn:
    _say(f"set-up failed: {' '.join(command)} ended with {exit_code}")
    sys.exit(1)


def _say(text: str) -> None:
    print(f"ottla: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    _on_signals(_interrupted)
    main()
