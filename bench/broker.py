"""A broker under measurement: a process, an address, a data folder."""

from __future__ import annotations

import abc
import itertools
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Self

from bench import process, protocol
from bench.connection import Connection
from bench.protocol import Metadata

if TYPE_CHECKING:
    from bench.cluster import Cluster

_PATIENCE_S = 300.0
_POLL_S = 0.002

_numbers = itertools.count()


class BenchError(Exception):
    """Something could not be measured; the message says what and why."""


class Broker(abc.ABC):
    """Owned by the run, which calls `stop` at its end however it ends. Lives through many
    starts on one folder. Its port is fixed before it starts, because a start is timed from
    outside, when the broker could not yet say which port it picked."""

    name: str
    tells_start_parts = False
    """To be set before it is spawned: it is to say where the time of its start goes, if it can."""

    def __init__(self, parent: Path) -> None:
        self._parent = parent
        self.folder = parent / f"{type(self).__name__.lower()}-{next(_numbers)}"
        self.folder.mkdir()

    def sibling(self) -> Self:
        """Another broker of this kind, on a folder of its own."""
        return type(self)(self._parent)

    @abc.abstractmethod
    def cluster(self, count: int) -> Cluster:
        """So many other brokers of this kind, on folders of their own."""

    @property
    @abc.abstractmethod
    def address(self) -> str: ...

    @property
    @abc.abstractmethod
    def pid(self) -> int: ...

    @property
    def pids(self) -> tuple[int, ...]:
        return (self.pid,)

    @property
    @abc.abstractmethod
    def is_running(self) -> bool: ...

    @abc.abstractmethod
    def make_folder_ready(self) -> None:
        """Does what an operator does once, before the first start of all."""

    @abc.abstractmethod
    def spawn(self) -> None:
        """Starts the process and does not wait for it. Nothing of the first start of a folder
        is left to do when it is called a second time."""

    @abc.abstractmethod
    def stop(self) -> None:
        """Cleanly; no error when it is not running."""

    @abc.abstractmethod
    def kill(self) -> None:
        """As `kill -9` does."""

    @abc.abstractmethod
    def log_folder(self, topic: str, partition: int) -> Path:
        """Where the segments of a partition lie."""

    @abc.abstractmethod
    def output(self) -> str:
        """What the process has printed."""

    def start_parts_output(self) -> str | None:
        """Where it says so; None for a broker that does not."""
        return None

    def start(self) -> None:
        self.spawn()
        self.wait_until_it_answers()

    def wait_until_it_answers(self) -> None:
        self.wait_until(self._answers, "answer")

    def wait_for_topic(self, topic: str, partition_count: int = 1) -> None:
        def has_leaders() -> bool:
            partitions = self.metadata(topic).partitions.values()
            return len(partitions) == partition_count and all(p.leader >= 0 for p in partitions)

        self.wait_until(has_leaders, f"name leaders for {topic}")

    def _answers(self) -> bool:
        return bool(self.metadata().brokers)

    def controller_id(self) -> int:
        return self.metadata().controller

    def metadata(self, topic: str = "none") -> Metadata:
        with Connection(self.address, timeout_s=10) as connection:
            frame = connection.ask(protocol.metadata_request(topic))
            return protocol.parse_metadata(frame)

    def wait_until(self, check: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while time.monotonic() < deadline:
            if not process.is_alive(self.pid):
                raise BenchError(f"{self.name} ended by itself: {self.output()[-800:].strip()}")
            begin = time.monotonic()
            try:
                if check():
                    return
            except OSError:
                pass  # Not listening yet: ask again until the deadline.
            # Metadata of a thousand partitions is work: the broker is to have time for its own.
            time.sleep(max(_POLL_S, 2 * (time.monotonic() - begin)))
        raise BenchError(f"{self.name} did not {what} within {_PATIENCE_S:.0f} s")
