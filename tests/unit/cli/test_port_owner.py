from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.cli.port_owner import port_owner

pytestmark = pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="needs Linux")


@pytest.mark.parametrize(
    ("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")]
)
def test_this_process(family: socket.AddressFamily, host: str) -> None:
    try:
        server = socket.create_server((host, 0), family=family)
    except OSError:
        pytest.skip(f"no {host} here")
    with server:
        port = server.getsockname()[1]
        owner = port_owner(port) or ""
    assert owner.endswith(f"(process {os.getpid()})")
    assert owner.startswith(Path(sys.executable).name[:6])
    assert port_owner(port) is None


def test_a_long_command_is_cut() -> None:
    code = (
        "import socket, sys; s = socket.create_server(('127.0.0.1', 0)); "
        "print(s.getsockname()[1], flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, "x" * 500, "a\nb"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        owner = port_owner(int(process.stdout.readline())) or ""
        process.communicate("")
    assert owner.endswith(f"… (process {process.pid})")
    assert len(owner) < 90
    assert owner.isprintable()
