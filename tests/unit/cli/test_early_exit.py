"""Signals in the first moments of a command."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from ottla.cli.early_exit import SIGNALS


@pytest.mark.parametrize("number", SIGNALS)
def test_it_ends_with_the_code_and_in_silence(number: signal.Signals) -> None:
    code = (
        "import time; from ottla.cli.early_exit import exit_at_once; exit_at_once(7); "
        "print('ready', flush=True); time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        assert process.communicate(timeout=30) == ("", "")
    assert process.returncode == 7


def test_it_imports_next_to_nothing() -> None:
    code = "import sys, ottla.cli.early_exit; print({'re', 'threading', 'typing'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
