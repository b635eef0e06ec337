"""What the README tells users to run does what it says."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

from ottla.kernel.config.broker import DIFFERS
from tests.support.ottla_process import OttlaProcess

ROOT = Path(__file__).resolve().parents[3]
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


def test_the_quick_start_runs(broker: OttlaProcess) -> None:
    quick_start, _ = blocks("python")
    code_lines = [line for line in quick_start.splitlines() if line.strip()]
    assert len(code_lines) <= 20
    done = subprocess.run(
        [sys.executable, "-c", quick_start.replace("localhost:9092", broker.bootstrap)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    expected = [f"{number} b'user-{number % 3}' b'/page/{number}'" for number in range(10)]
    assert done.stdout.splitlines() == expected


def test_the_commands_run(broker: OttlaProcess, tmp_path: Path) -> None:
    (commands,) = [block for block in blocks("sh") if "topics create" in block]
    # One Python for all of them, whichever runs the tests.
    ottla = f"env PYTHONPATH={ROOT / 'src'} OTTLA_BOOTSTRAP={broker.bootstrap}"
    ottla += f" {shlex.quote(sys.executable)} -m ottla"
    done = subprocess.run(
        ["sh", "-ec", commands.replace("./ottla", ottla)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "hello" in done.stdout


def test_the_table_of_defaults_is_complete() -> None:
    rows = {line for line in README.splitlines() if line.startswith("| `")}
    assert rows == {
        f"| {', '.join(f'`{name}`' for name in difference.name.split(', '))} | {difference.kafka}"
        f" | {difference.ottla} | {difference.why} |"
        for difference in DIFFERS
    }


def test_its_links_lead_somewhere() -> None:
    targets = re.findall(r"\]\((?!https?:|#)([^)#]+)", README)
    assert targets
    assert [target for target in targets if not (ROOT / target).exists()] == []
