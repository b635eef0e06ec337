"""`./test`: every check and every test, then a summary that also says what was not run, and why."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

from tests.support.other_pythons import environment_of, other_pythons, unit_tests
from tools import apache_kafka

_ROOT = Path(__file__).resolve().parent.parent.parent
_BIN = Path(sys.executable).parent
_CACHE = _ROOT / ".cache"
_IS_CI = os.environ.get("CI") == "true"

_TYPED = ["src", "tools", "tests", "bench", "examples"]
_LANES = {
    "clients": ["compat", "faults", "browser"],
    "rest": ["property", "unit", "simulation", "contract", "pipeline"],
}
"""Folders of tests that run beside each other: about half of the time each, on two cores. Those of
properties are first: what they find is then not what an earlier test left in the process."""
_TOOLS = {
    **{name: name for name in ("kcat", "shellcheck", "chromium", "zsh", "fish")},
    "ip": "iproute2",
}
"""By command, the Debian package that has it."""
_SHELL_SCRIPTS = ["ottla", "test", ".ci/run", "requirements/lock", "tools/environment.sh"]


@dataclass
class Outcome:
    """Of one section."""

    name: str
    passed: int = 0
    failed: int = 0
    not_run: Counter[str] = field(default_factory=Counter)
    """Why, and how many for that reason."""
    seconds: float = 0.0


def main() -> int:
    args = sys.argv[1:]
    if "--full" in args:
        args.remove("--full")
        os.environ["OTTLA_TEST_FULL"] = "1"
    sections: list[tuple[str, Callable[[], Outcome]]] = []
    if not args:
        sections = [
            ("tools", _fetch_tools),
            ("format", lambda: _check("format", "ruff", "format", "--check", ".")),
            ("lint", lambda: _check("lint", "ruff", "check", ".")),
            ("shell", _check_shell),
            ("types", lambda: _check("types", "mypy", *_TYPED)),
            ("imports", lambda: _check("imports", "lint-imports", "--no-logo")),
        ]
    sections.append(("tests", lambda: _run_tests(args)))
    if not args:
        sections.append(("pythons", _run_on_other_pythons))
    outcomes = []
    for name, section in sections:
        print(f"\n── {name} ".ljust(80, "─"), flush=True)
        start_s = time.monotonic()
        outcome = section()
        outcome.seconds = time.monotonic() - start_s
        outcomes.append(outcome)
    return _summarize(outcomes)


def _fetch_tools() -> Outcome:
    """What tests use besides Python packages. None of it is a must on a developer's machine."""
    outcome = Outcome("tools")
    wanted = [package for name, package in _TOOLS.items() if shutil.which(name) is None]
    if wanted and shutil.which("apt-get") and os.geteuid() == 0:
        print(f"installing {', '.join(wanted)} by apt-get", flush=True)
        environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        install = ["apt-get", "install", "--quiet", "--yes", "--no-install-recommends", *wanted]
        for command in (["apt-get", "update", "--quiet"], install):
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=environment
            )
            if done.returncode != 0:
                print(done.stdout, done.stderr, flush=True)
    for name in _TOOLS:
        print(f"{name}: {shutil.which(name) or 'not installed'}")
    if (reason := apache_kafka.missing()) is not None:
        print(f"Apache Kafka: {reason}")
    else:
        print(f"Apache Kafka {apache_kafka.VERSION}: {apache_kafka.libs().relative_to(_ROOT)}")
    return outcome


def _check(name: str, tool: str, *args: str) -> Outcome:
    done = subprocess.run([_BIN / tool, *args], stdin=subprocess.DEVNULL, cwd=_ROOT)
    ok = done.returncode == 0
    return Outcome(name, passed=int(ok), failed=int(not ok))


def _check_shell() -> Outcome:
    shellcheck = shutil.which("shellcheck")
    if shellcheck is None:
        reason = "shellcheck is not installed"
        print(reason)
        return Outcome("shell", failed=int(_IS_CI), not_run=Counter({reason: 1}))
    done = subprocess.run([shellcheck, "-x", *_SHELL_SCRIPTS], stdin=subprocess.DEVNULL, cwd=_ROOT)
    ok = done.returncode == 0
    return Outcome("shell", passed=int(ok), failed=int(not ok))


def _run_tests(args: list[str]) -> Outcome:
    """All of them in lanes; those that were asked for in one."""
    _CACHE.mkdir(exist_ok=True)
    folders = {lane: [f"tests/{name}" for name in names] for lane, names in _LANES.items()}
    lanes = {"chosen": args} if args else folders
    with ExitStack() as stack:
        running = [
            stack.enter_context(_Lane(name, chosen, is_shown=index == 0))
            for index, (name, chosen) in enumerate(lanes.items())
        ]
        outcome = Outcome("tests")
        for lane in running:
            lane.finish(outcome)
    if not args and (reason := apache_kafka.missing()) is not None:
        outcome.not_run[f"DumpLogSegments over all that brokers wrote: {reason}"] += 1
    return outcome


def _run_on_other_pythons() -> Outcome:
    """The unit tests, beside each other: some 45 s of processor time for each Python."""
    outcome = Outcome("pythons")
    pythons = other_pythons()
    if not pythons:
        outcome.not_run["unit tests on another Python: this machine has none from 3.11 on"] += 1
    with ExitStack() as stack:
        running = [
            stack.enter_context(
                _Lane(
                    f"python-{version}",
                    unit_tests(),
                    is_shown=index == 0,
                    python=environment_of(version, python),
                )
            )
            for index, (version, python) in enumerate(pythons.items())
        ]
        for lane in running:
            lane.finish(outcome)
    return outcome


class _Lane:
    """One pytest. What it prints is shown as it comes, or, beside another, when both are done."""

    def __init__(
        self, name: str, args: list[str], *, is_shown: bool, python: Path = Path(sys.executable)
    ) -> None:
        self._name = name
        self._args = args
        self._python = python
        # Only .venv has ottla installed.
        path = {} if python == Path(sys.executable) else {"PYTHONPATH": str(_ROOT / "src")}
        self._environment = os.environ | path
        self._report = _CACHE / f"test-report-{name}.xml"
        self._log = None if is_shown else _CACHE / f"test-{name}.log"

    def __enter__(self) -> _Lane:
        self._report.unlink(missing_ok=True)
        command: list[str | Path] = [self._python, "-m", "pytest", "--durations=10"]
        command.append(f"--junitxml={self._report}")
        # What failed last is noted in the cache: of each lane, in its own.
        command += ["-o", f"cache_dir={_CACHE / f'pytest-{self._name}'}", *self._args]
        with ExitStack() as stack:
            log = None if self._log is None else stack.enter_context(open(self._log, "wb"))
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=_ROOT,
                env=self._environment,
            )
        return self

    def __exit__(self, *error: object) -> None:
        if self._process.poll() is None:  # Ctrl-C
            self._process.send_signal(signal.SIGINT)
            self._process.wait()

    def finish(self, outcome: Outcome) -> None:
        code = self._process.wait()
        if self._log is not None:
            sys.stdout.flush()
            sys.stdout.buffer.write(self._log.read_bytes())
            sys.stdout.flush()
        failed_before = outcome.failed
        if self._report.exists():
            _count_report(self._report, outcome)
        if code != 0 and outcome.failed == failed_before:
            outcome.failed += 1  # Nothing collected, or a complaint about what all of them wrote.


def _count_report(report: Path, outcome: Outcome) -> None:
    for case in ElementTree.parse(report).iter("testcase"):
        skipped = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            outcome.failed += 1
        elif skipped is not None:
            outcome.not_run[skipped.get("message", "no reason given")] += 1
        else:
            outcome.passed += 1


def _summarize(outcomes: list[Outcome]) -> int:
    print("\n── summary ".ljust(80, "─"))
    not_run: Counter[str] = Counter()
    for outcome in outcomes:
        verdict = "FAILED" if outcome.failed else "ok" if outcome.passed else ""
        print(f"{outcome.name:<10} {verdict:<8} {outcome.seconds:7.1f} s")
        not_run += outcome.not_run
    for reason, times in sorted(not_run.items()):
        print(f"not run: {times} x {reason}")
    passed = sum(outcome.passed for outcome in outcomes)
    failed = sum(outcome.failed for outcome in outcomes)
    skipped = f", {not_run.total()} not run" if not_run else ""
    print(f"{passed} passed, {failed} failed{skipped}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
