"""What the machine can do with no protocol and no broker: the end of all tuning."""

from __future__ import annotations

import multiprocessing
import os
import socket
import statistics
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench import client, process
from bench.benchmark import Effort, Measures, Setting
from bench.benchmarks.java_produce import COUNT_1KB, COUNT_100B
from bench.benchmarks.small_requests import CONNECTIONS, IN_FLIGHT
from bench.clients import echo_responder, forgetful_broker

_CHUNK_BYTES = 1024 * 1024
_CHUNKS = 2048
_PATIENCE_S = 120.0


def _send(port: int, chunks: int) -> None:
    """The other end: sends everything, then takes everything back."""
    chunk = bytearray(_CHUNK_BYTES)
    with socket.create_connection(("127.0.0.1", port), timeout=_PATIENCE_S) as connection:
        for _ in range(chunks):
            connection.sendall(chunk)
        left = chunks * _CHUNK_BYTES
        while left > 0:
            received = connection.recv_into(chunk)
            if received == 0:
                raise ConnectionError("closed early")
            left -= received


def _into_file(connection: socket.socket, descriptor: int, chunks: int) -> None:
    chunk = bytearray(_CHUNK_BYTES)
    view = memoryview(chunk)
    left = chunks * _CHUNK_BYTES
    while left > 0:
        received = connection.recv_into(chunk)
        if received == 0:
            raise ConnectionError("closed early")
        os.write(descriptor, view[:received])
        left -= received


def _out_of_file(connection: socket.socket, descriptor: int, chunks: int) -> None:
    position, end = 0, chunks * _CHUNK_BYTES
    while position < end:
        position += os.sendfile(connection.fileno(), descriptor, position, end - position)


def bytes_through(folder: Path, chunks: int) -> Measures:
    """MB/s from a loopback socket into a file, and back by sendfile."""
    path = folder / "ceiling"
    spawning = multiprocessing.get_context("spawn")
    with socket.create_server(("127.0.0.1", 0)) as listener, path.open("w+b") as file:
        listener.settimeout(_PATIENCE_S)
        sender = spawning.Process(target=_send, args=(listener.getsockname()[1], chunks))
        sender.start()
        try:
            connection, _ = listener.accept()
            with connection:
                connection.setblocking(True)
                begin_s = time.perf_counter()
                _into_file(connection, file.fileno(), chunks)
                between_s = time.perf_counter()
                _out_of_file(connection, file.fileno(), chunks)
                sender.join(_PATIENCE_S)
                end_s = time.perf_counter()
        finally:
            sender.kill()
            sender.join()
            path.unlink()
    megabytes = chunks * _CHUNK_BYTES / 1e6
    return {
        "ceiling_in_mb": megabytes / (between_s - begin_s),
        "ceiling_out_mb": megabytes / (end_s - between_s),
    }


@dataclass(frozen=True, slots=True)
class Responder:
    """A process that answers as a broker does, and does no work. What a broker reaches of what a
    client does with it says whether the broker or the client was measured."""

    address: str
    pid: int

    @property
    def pids(self) -> tuple[int, ...]:
        return (self.pid,)

    @classmethod
    @contextmanager
    def running(cls, module: str) -> Iterator[Responder]:
        responder = subprocess.Popen(
            client.python_command(module),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=client.python_environment(),
        )
        try:
            assert responder.stdout is not None
            yield cls(f"127.0.0.1:{int(responder.stdout.readline())}", responder.pid)
        finally:
            process.end(responder)


def requests_answered(seconds: float) -> Measures:
    """To the load generators of this benchmark."""
    measures: Measures = {}
    with Responder.running("echo_responder") as responder:
        common = (responder.address, responder.pid, echo_responder.TOPIC)
        for connections in CONNECTIONS:
            report = client.run_python(
                "pipelined_producer", *common, connections, IN_FLIGHT, 0.2, seconds
            )
            measures[f"ceiling_requests_{connections}"] = client.spent(report).rate / 1e3
        report = client.run_python("sync_producer", *common, 1, 1, 0.2, seconds)
        measures["ceiling_sync_p50_us"] = report["p50_us"]
        measures["ceiling_sync_p99_us"] = report["p99_us"]
    return measures


def java_acknowledged(effort: Effort) -> Measures:
    """To ProducerPerformance, as in `java_produce`."""
    topic = forgetful_broker.TOPIC
    with Responder.running("forgetful_broker") as responder:
        count = effort.count(COUNT_100B)
        small = client.java_produce(responder, topic, count, 100, {"acks": "1"})
        count = effort.count(COUNT_1KB)
        big = client.java_produce(responder, topic, count, 1024, {"acks": "all"})
    return {
        "ceiling_java_100b": small.rate / 1e3,
        "ceiling_java_1kb": big.rate * 1024 / 1e6,
    }


def measure(setting: Setting, rounds: int, *, with_java: bool) -> Measures:
    """Medians, as for the brokers."""
    seen = [
        bytes_through(setting.folder, setting.effort.count(_CHUNKS))
        | requests_answered(setting.effort.seconds(4.0))
        | (java_acknowledged(setting.effort) if with_java else {})
        for _ in range(rounds)
    ]
    return {key: statistics.median(each[key] for each in seen) for key in seen[0]}
