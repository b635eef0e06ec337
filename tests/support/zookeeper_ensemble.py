"""Three ZooKeepers that elect a leader among them, on this machine."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from ottla.cli.zookeeper.jars import zookeeper_jars
from ottla.cli.zookeeper.server import is_serving
from tests.support.need import need_java

_HOST = "127.0.0.1"
_PATIENCE_S = 60
_CONFIG = """\
dataDir={folder}
clientPortAddress={host}
clientPort={port}
tickTime=500
initLimit=20
syncLimit=10
maxClientCnxns=0
admin.enableServer=false
4lw.commands.whitelist=srvr
"""


class ZooKeeperEnsemble:
    """Servers 1 to `count`, which keep their ports and data over their starts. Whoever made it
    stops it; tests kill servers and start them again."""

    def __init__(self, folder: Path, count: int = 3) -> None:
        need_java()
        self._folder = folder
        free = iter(_free_ports(3 * count))
        self._ports = {number: next(free) for number in range(1, count + 1)}
        self._members = "".join(
            f"server.{number}={_HOST}:{next(free)}:{next(free)}\n" for number in self._ports
        )
        self._running: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def address(self) -> str:
        """Of all of them, as in zookeeper.connect."""
        return ",".join(f"{_HOST}:{port}" for port in self._ports.values())

    def start(self, *numbers: int) -> None:
        """These, or all. Returns when they serve: those that are there are a majority by then."""
        wanted = numbers or tuple(self._ports)
        for number in wanted:
            self._running[number] = self._launch(number)
        self._wait_until(lambda: all(self._is_serving(number) for number in wanted))

    def leader(self) -> int:
        """Whom the others follow."""
        found: list[int] = []

        def is_found() -> bool:
            found[:] = [number for number in self._running if self._mode(number) == "leader"]
            return len(found) == 1

        self._wait_until(is_found)
        return found[0]

    def kill(self, number: int) -> None:
        process = self._running.pop(number)
        process.send_signal(signal.SIGKILL)
        process.wait()

    def stop(self) -> None:
        for number in list(self._running):
            self.kill(number)

    def _launch(self, number: int) -> subprocess.Popen[bytes]:
        folder = self._folder / f"zookeeper-{number}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "myid").write_text(str(number))
        config = _CONFIG.format(folder=folder, host=_HOST, port=self._ports[number])
        (folder / "zoo.cfg").write_text(config + self._members)
        java = shutil.which("java")
        assert java is not None, "it was asked for"
        command = [java, "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        command += ["-cp", ":".join(zookeeper_jars())]
        command += ["org.apache.zookeeper.server.quorum.QuorumPeerMain", str(folder / "zoo.cfg")]
        with open(folder / "zookeeper.log", "ab") as log:
            return subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def _is_serving(self, number: int) -> bool:
        assert self._running[number].poll() is None, self._log(number)
        return is_serving(_HOST, self._ports[number])

    def _mode(self, number: int) -> str | None:
        try:
            with socket.create_connection((_HOST, self._ports[number]), timeout=1) as connection:
                connection.sendall(b"srvr")
                said = b"".join(iter(lambda: connection.recv(4096), b"")).decode()
        except OSError:
            return None
        modes = [line for line in said.splitlines() if line.startswith("Mode: ")]
        return modes[0].removeprefix("Mode: ") if modes else None

    def _wait_until(self, is_so: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + _PATIENCE_S
        while not is_so():
            assert time.monotonic() < deadline_s, "\n".join(map(self._log, self._running))
            time.sleep(0.05)

    def _log(self, number: int) -> str:
        text = (self._folder / f"zookeeper-{number}" / "zookeeper.log").read_text(errors="replace")
        return f"ZooKeeper {number}:\n{text[-2000:]}"


def _free_ports(count: int) -> list[int]:
    held = [socket.create_server((_HOST, 0)) for _ in range(count)]
    ports: list[int] = [each.getsockname()[1] for each in held]
    for each in held:
        each.close()
    return ports
