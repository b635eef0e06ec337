"""What libraries say in a pipeline's process is in its log, and not on the terminal."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.cli.pipeline import driver_log

START = """
import logging, sys, threading, warnings
from pathlib import Path
from ottla.cli.pipeline.driver_log import log_to
path = Path(sys.argv[1])
log_to(path)
"""

LOUD = {
    "py4j's error, on the root logger": """
try:
    raise ConnectionResetError("by peer")
except ConnectionResetError:
    logging.exception("Exception while sending command.")
""",
    "a warning": "warnings.warn('this is deprecated')",
    "a thread that fails": """
def fail(): raise ConnectionResetError("by peer")
thread = threading.Thread(target=fail)
thread.start()
thread.join()
""",
    "what cannot be raised": """
class Gone:
    def __del__(self): raise ConnectionResetError("by peer")
del (gone := [Gone()])[0]
""",
}


def run(code: str, log: Path) -> str:
    """What it prints."""
    done = subprocess.run(
        [sys.executable, "-c", START + code, str(log)], capture_output=True, text=True, check=True
    )
    assert done.stdout == ""
    return done.stderr


@pytest.mark.parametrize("code", LOUD.values(), ids=LOUD)
def test_what_libraries_say(code: str, tmp_path: Path) -> None:
    log = tmp_path / "spark.log"
    assert run(code, log) == ""
    assert ("by peer" if "by peer" in code else "deprecated") in log.read_text()


def test_a_log_that_was_emptied(tmp_path: Path) -> None:
    code = """
logging.error("before")
path.write_text("")
logging.error("after")
"""
    assert run(code, tmp_path / "spark.log") == ""
    text = (tmp_path / "spark.log").read_text()
    assert text.startswith("2")
    assert text.endswith("ERROR root: after\n")


def test_a_log_that_cannot_be_written(tmp_path: Path) -> None:
    assert run("logging.error('lost')", tmp_path / "missing" / "spark.log") == ""


def test_our_own_warnings_are_for_the_user(tmp_path: Path) -> None:
    code = "logging.getLogger('ottla.pipeline.run.lag').warning('group %s has members', 'g')"
    assert run(code, tmp_path / "spark.log") == "ottla: group g has members\n"
    assert "group g has members" in (tmp_path / "spark.log").read_text()


def test_the_server_of_accumulators(capfd: pytest.CaptureFixture[str]) -> None:
    server: Any = SimpleNamespace()
    spark = SimpleNamespace(_sc=SimpleNamespace(_accumulatorServer=server))
    driver_log.log_accumulators(cast("Any", spark))
    try:
        raise EOFError("Java has ended")
    except EOFError:
        server.handle_error(None, None)  # as socketserver calls it
    assert capfd.readouterr() == ("", "")


def test_a_session_that_is_elsewhere_has_no_such_server() -> None:
    driver_log.log_accumulators(cast("Any", SimpleNamespace()))
