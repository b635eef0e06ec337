"""A ZooKeeper server as a child process."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from types import TracebackType

from ottla.cli.errors import Failure
from ottla.cli.zookeeper.jars import version_of, zookeeper_jars

_START_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 10.0
_POLL_S = 0.05

# A heartbeat of half a second: sessions may be as short as a second, and one that is over ends
# within half a second. Old snapshots are removed, or a laptop's disk would fill up.
_ZOO_CFG = """\
# Ottla writes this file at each start.
dataDir={data_dir}
clientPortAddress={host}
clientPort={port}
tickTime=500
maxSessionTimeout=60000
maxClientCnxns=0
admin.enableServer=false
autopurge.purgeInterval=1
"""
_LOG4J = """\
# Ottla writes this file at each start.
rootLogger.level=warn
rootLogger.appenderRef.out.ref=out
appender.out.type=Console
appender.out.name=out
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=%d %p %m%n
"""
_MAIN_CLASS = "org.apache.zookeeper.server.quorum.QuorumPeerMain"

# For a start in half the time: no second compiler, one thread for garbage.
_JAVA_OPTIONS = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")

# Java never hears of it when its parent is killed. So a subshell reads the pipe to the parent, and
# ends Java when that is closed, by whatever reason. The shell itself becomes Java.
_TIED = 'exec 3<&0; (cat <&3 >/dev/null; kill $$ 2>/dev/null) & exec 3<&-; exec "$@" </dev/null'


class ZooKeeperServer:
    """Runs from `with` to its end, and ends with its parent even if that is killed. It is in a
    session of its own, so that Ctrl-C reaches its parent only, which stops it in order. The data
    dir stays: the next one goes on with it."""

    def __init__(self, java: str, host: str, port: int, data_dir: str) -> None:
        self._java = java
        self._data_dir = os.path.abspath(data_dir)
        self._process: subprocess.Popen[bytes] | None = None
        self.log_path = os.path.join(self._data_dir, "zookeeper.log")
        self.host = host
        self.port = port
        self.version = ""

    def __enter__(self) -> ZooKeeperServer:
        jars = zookeeper_jars()
        self.version = version_of(jars)
        config_path = self._write("zoo.cfg", _ZOO_CFG)
        log4j_path = self._write("log4j2.properties", _LOG4J)
        command = ["sh", "-c", _TIED, "sh", self._java, *_JAVA_OPTIONS]
        command += [f"-Dlog4j2.configurationFile={log4j_path}", "-cp", ":".join(jars)]
        command += [_MAIN_CLASS, config_path]
        with open(self.log_path, "wb") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True
            )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        process = self._running()
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            process.wait()
        assert process.stdin is not None, "a pipe was asked for"
        process.stdin.close()

    def wait_until_ready(self, is_stopped: Callable[[], bool]) -> bool:
        """False when it was told to stop meanwhile."""
        deadline_s = time.monotonic() + _START_TIMEOUT_S
        while not is_stopped():
            if self.exit_code() is not None:
                raise Failure(f"ZooKeeper could not start: {self.last_words()}")
            if is_serving(self.host, self.port):
                return True
            if time.monotonic() > deadline_s:
                raise Failure(
                    f"ZooKeeper does not answer on {self.host}:{self.port} after "
                    f"{_START_TIMEOUT_S:.0f} s; see {self.log_path}"
                )
            time.sleep(_POLL_S)
        return False

    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._running().poll()

    def kill(self) -> None:
        """Nothing to do where it was not started yet."""
        if self._process is not None:
            self._process.kill()

    def last_words(self) -> str:
        """The reason that Java gives: the last cause of the last exception, else the last line."""
        with open(self.log_path, errors="replace") as log:
            lines = [line.strip() for line in log if line.strip()]
        causes = [line for line in lines if line.startswith(("Caused by: ", "Error"))]
        reason = (causes or lines or ["it said nothing"])[-1].removeprefix("Caused by: ")
        return f"{reason} (see {self.log_path})"

    def _write(self, name: str, template: str) -> str:
        path = os.path.join(self._data_dir, name)
        with open(path, "w") as file:
            file.write(template.format(data_dir=self._data_dir, host=self.host, port=self.port))
        return path

    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "it was started"
        return self._process


def is_serving(host: str, port: int) -> bool:
    """A server that listens and is not ready yet says so, in other words."""
    try:
        with socket.create_connection((host, port), timeout=1.0) as connection:
            connection.sendall(b"srvr")
            return connection.recv(64).startswith(b"Zookeeper version")
    except OSError:
        return False
