"""`ottla doctor`: what it prints, and how it ends."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.cli.main import main


def test_where_nothing_would_fail(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--data-dir", str(tmp_path), "--listen", "127.0.0.1:0"]) == 0
    out = capsys.readouterr().out
    assert "\nok       port        127.0.0.1:0 is free\n" in out
    assert out.endswith("\nNothing would fail.\n")


def test_what_would_fail_comes_with_a_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        listen = f"127.0.0.1:{port}"
        assert main(["doctor", "--data-dir", f"{tmp_path}/file", "--listen", listen]) == 1
    out = capsys.readouterr().out
    assert f"\nproblem  disk        {tmp_path}/file is a file\n" in out
    assert f"  → ottla start --listen 127.0.0.1:{port + 1}\n" in out
    assert out.endswith("\n2 problems: see the arrows above.\n")


def test_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    args = ["--json", "--data-dir", f"{tmp_path}/file", "--listen", "127.0.0.1:0"]
    assert main(["doctor", *args]) == 1
    findings = {one["name"]: one for one in json.loads(capsys.readouterr().out)}
    assert findings["disk"]["verdict"] == "problem"
    assert set(findings["port"]) == {"name", "verdict", "found", "remedy"}


@pytest.mark.parametrize("listen", ["9092", "host:x", "host:70000"])
def test_an_address_that_is_none(listen: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--listen", listen]) == 2
    assert "is not HOST:PORT" in capsys.readouterr().err


def test_it_imports_neither_spark_nor_the_broker() -> None:
    code = (
        "import sys; from ottla.cli.main import main; main(['doctor', '--listen', '127.0.0.1:0']);"
        "print([name for name in ('pyspark', 'pyarrow', 'uvloop', 'ottla.broker')"
        " if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
