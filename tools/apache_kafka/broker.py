"""A real Apache Kafka broker (KRaft): broker and controller in one process, or beside one such."""

from __future__ import annotations

import base64
import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from tools.apache_kafka.java import java_command, run_tool

# As kafka-run-class.sh starts a server.
_SERVER_OPTIONS = [
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
]
_STOCK_HEAP_MB = 1024
_START_TIMEOUT_S = 60
_STOP_TIMEOUT_S = 30


@dataclass(frozen=True, slots=True)
class Quorum:
    """Nodes of one cluster, numbered from 1, each both broker and controller."""

    cluster_id: str
    controller_ports: tuple[int, ...]

    @classmethod
    def of(cls, count: int) -> Quorum:
        return cls(_new_cluster_id(), tuple(_free_port() for _ in range(count)))


@dataclass(frozen=True, slots=True)
class Membership:
    quorum: Quorum
    node_id: int


class ApacheKafkaBroker:
    """Lives in `folder` (data, settings, log of the process), which the caller removes. Settings
    are Kafka's defaults, with replication of one for the internal topics. Heap and collector are
    the stock ones of kafka-server-start.sh unless `heap_mb` says otherwise. One that `joins`
    another is broker 2 of its cluster, and may come and go while that one runs; a `member` is a
    node of a quorum, and ready only once most of its nodes are."""

    def __init__(
        self,
        folder: Path | str,
        *,
        settings: Mapping[str, str] | None = None,
        heap_mb: int = _STOCK_HEAP_MB,
        port: int | None = None,
        joins: ApacheKafkaBroker | None = None,
        member: Membership | None = None,
    ) -> None:
        self.folder = Path(folder).resolve()
        self.port = port or _free_port()
        self._joins = joins
        self._member = member
        self._controller_port: int = _free_port() if joins is None else joins._controller_port
        self._settings = dict(settings or {})
        self._heap_mb = heap_mb
        self._process: subprocess.Popen[bytes] | None = None
        self._log_position = 0

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def log_dir(self) -> Path:
        """Where the partitions' folders are."""
        return self.folder / "data"

    @property
    def cluster_id(self) -> str:
        """Known once it was started."""
        for line in (self.log_dir / "meta.properties").read_text().splitlines():
            key, _, value = line.partition("=")
            if key == "cluster.id":
                return value
        raise LookupError(f"no cluster.id in the meta.properties of {self.log_dir}")

    @property
    def pid(self) -> int:
        assert self._process is not None, "not started"
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def log_text(self) -> str:
        return (self.folder / "server.log").read_text(errors="replace")

    def format(self) -> Path:
        """Makes the folder ready for a first start, if it is not. Returns the file of settings."""
        properties = self._write_properties()
        if not (self.log_dir / "meta.properties").exists():
            arguments = ("--config", str(properties), "--cluster-id", self._own_cluster_id())
            run_tool("storage", "format", *arguments)
        return properties

    def _own_cluster_id(self) -> str:
        if self._member is not None:
            return self._member.quorum.cluster_id
        return _new_cluster_id() if self._joins is None else self._joins.cluster_id

    def start(self, *, wait: bool = True) -> None:
        """Formats the storage at the first start. Returns once it answers, unless told not to
        wait."""
        assert self._process is None, "already started"
        properties = self.format()
        command = java_command(
            "kafka.Kafka",
            str(properties),
            options=[f"-Xmx{self._heap_mb}M", f"-Xms{self._heap_mb}M", *_SERVER_OPTIONS],
            log_level="INFO",
        )
        with open(self.folder / "server.log", "ab") as log:
            self._log_position = log.tell()
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder
            )
        if wait:
            self._wait_until_ready()

    def stop(self) -> None:
        """Cleanly, as SIGTERM does."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(number)
        try:
            process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def __enter__(self) -> ApacheKafkaBroker:
        try:
            self.start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def _write_properties(self) -> Path:
        controller = f"127.0.0.1:{self._controller_port}"
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{controller}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://{controller}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(self.log_dir),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
        }
        if self._joins is not None:
            settings |= {
                "process.roles": "broker",
                "node.id": "2",
                "listeners": f"PLAINTEXT://{self.bootstrap}",
            }
        if self._member is not None:
            settings |= self._member_settings(self._member)
        settings |= self._settings
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / "server.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        return path

    def _member_settings(self, member: Membership) -> dict[str, str]:
        ports = member.quorum.controller_ports
        voters = (f"{number}@127.0.0.1:{port}" for number, port in enumerate(ports, start=1))
        controller = f"127.0.0.1:{ports[member.node_id - 1]}"
        return {
            "node.id": str(member.node_id),
            "controller.quorum.voters": ",".join(voters),
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://{controller}",
        }

    def _wait_until_ready(self) -> None:
        """Until it says so in its log: before that, its port may be open while the controller
        still fences it, and metadata would list no broker."""
        assert self._process is not None, "not started"
        deadline = time.monotonic() + _START_TIMEOUT_S
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise RuntimeError(f"Apache Kafka did not start:\n{self.log_text()[-4000:]}")
            if "Kafka Server started" in self.log_text()[self._log_position :]:
                return
            time.sleep(0.05)
        raise TimeoutError(f"Apache Kafka is not ready:\n{self.log_text()[-4000:]}")


def _new_cluster_id() -> str:
    made = base64.urlsafe_b64encode(os.urandom(16)).rstrip(b"=").decode()
    return made.replace("-", "a")  # A leading dash would be taken for an option.


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
