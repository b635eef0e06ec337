"""From an empty data dir to a group's first record: what every test suite on a broker waits for."""

from __future__ import annotations

import itertools
import json
import subprocess
import time
from collections.abc import Callable

from bench import client, process
from bench.benchmark import Measures, Setting
from bench.broker import BenchError, Broker

_SHARD_COUNT = 50

_CLIENTS: dict[str, Callable[[], list[str]]] = {
    "rdkafka": lambda: client.python_command("first_record_rdkafka"),
    "java": lambda: client.java_program("FirstRecord"),
    "aiokafka": lambda: client.python_command("first_record_aiokafka"),
}


class FirstRecord:
    """Each client is a process that lives over all rounds and is warm: it has done the same with
    the run's own broker before. A line in is an address and a group; a line out says that the
    group's first record is there, another one that the clients are closed."""

    name = "first_record"
    needs_java = True
    has_cluster = False

    def __init__(self, broker: Broker, setting: Setting) -> None:
        self._broker = broker
        self._complaints = setting.folder / f"first-record-{broker.name}.txt"
        # Shards are made in their order: the last one is the last to be there.
        self._shards = (_SHARD_COUNT - 1,) if setting.effort.is_quick else (0, _SHARD_COUNT - 1)
        self._clients: dict[str, subprocess.Popen[bytes]] = {}

    def prepare(self) -> None:
        for name, command in _CLIENTS.items():
            with self._complaints.open("ab") as complaints:
                self._clients[name] = subprocess.Popen(
                    command(),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=complaints,
                    env=client.python_environment(),
                )
            self._ask(name, self._broker, "warm-up")
            self._expect(name, {"group": "warm-up"})
            self._expect(name, {"closed": "warm-up"})

    def measure(self) -> Measures:
        measures: Measures = {}
        for name in self._clients:
            measured = [self._measure(name, shard) for shard in self._shards]
            measures[f"first_{name}_s"], measures[f"first_{name}_cpu_s"] = max(measured)
        return measures

    def clean_up(self) -> None:
        for running in self._clients.values():
            process.end(running)

    def _measure(self, name: str, shard: int) -> tuple[float, float]:
        """Seconds, and those of the broker's processor."""
        broker = self._broker.sibling()
        broker.make_folder_ready()
        group = _group_of(shard)
        begin_s = time.perf_counter()
        try:
            broker.start()
            self._ask(name, broker, group)
            self._expect(name, {"group": group})
            measured = time.perf_counter() - begin_s, process.cpu_s(broker.pid)
            # Some clients try for a minute to leave the group of a broker that is gone.
            self._expect(name, {"closed": group})
            return measured
        finally:
            broker.stop()

    def _ask(self, name: str, broker: Broker, group: str) -> None:
        stream = self._clients[name].stdin
        assert stream is not None
        stream.write(f"{broker.address} {group}\n".encode())
        stream.flush()

    def _expect(self, name: str, line: dict[str, str]) -> None:
        stream = self._clients[name].stdout
        assert stream is not None
        found = stream.readline()
        if not found or json.loads(found) != line:
            complaints = self._complaints.read_text(errors="replace")[-500:].strip()
            raise BenchError(f"{name} did not say {line}: {complaints}")


def _group_of(shard: int) -> str:
    """By Java's hash of a string, as coordinators are found."""
    for number in itertools.count():
        name = f"first-{number}"
        if _java_hash(name) % _SHARD_COUNT == shard:
            return name
    raise AssertionError("there is a name for every shard")


def _java_hash(text: str) -> int:
    value = 0
    for character in text:
        value = (31 * value + ord(character)) & 0xFFFFFFFF
    return value & 0x7FFFFFFF if value < 1 << 31 else (1 << 32) - value
