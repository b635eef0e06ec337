"""How long a produce takes while another client reads data that is not in the page cache."""

from __future__ import annotations

import os
import shutil
from contextlib import ExitStack

from bench import client, topics
from bench.benchmark import Measures, Setting
from bench.broker import BenchError, Broker
from bench.client import Report

_COLD_BYTES = 5_000_000_000
_RECORDS_A_BATCH = 500
_RECORD_BYTES = 1000
_READ_S_MAX = 120


class ColdRead:
    """The data is written once, and dropped from the cache before every round."""

    name = "cold_read"
    needs_java = False
    has_cluster = False

    def __init__(self, broker: Broker, setting: Setting) -> None:
        self._broker, self._setting = broker, setting
        self._bytes = setting.effort.count(_COLD_BYTES)
        self._topic: str | None = None

    def prepare(self) -> None:
        free = shutil.disk_usage(self._setting.folder).free
        # Room for it, and as much again for what lies around until it is deleted.
        if free < 2 * self._bytes:
            raise BenchError(f"needs {2 * self._bytes / 1e9:.0f} GB free, has {free / 1e9:.1f} GB")
        self._topic = topics.create(self._broker, "cold")
        batches = self._bytes // (_RECORDS_A_BATCH * _RECORD_BYTES) + 1
        arguments = (self._broker.address, self._topic, 1, batches)
        command = client.python_command("filler", *arguments, _RECORDS_A_BATCH, _RECORD_BYTES)
        client.run(command, patience_s=600)

    def measure(self) -> Measures:
        assert self._topic is not None, "prepared first"
        self._drop_from_cache(self._topic)
        with topics.temporary(self._broker, "beside") as beside:
            read, produced = self._read_and_produce(self._topic, beside)
        return {
            "cold_p99_us": produced["p99_us"],
            "cold_p50_us": produced["p50_us"],
            "cold_read_mb": read["bytes"] / read["elapsed_s"] / 1e6,
        }

    def _read_and_produce(self, cold: str, beside: str) -> tuple[Report, Report]:
        """The producer runs as long as the reader does."""
        broker = (self._broker.address, self._broker.pid)
        with ExitStack() as stack:
            reader = stack.enter_context(
                client.Running("cold_reader", *broker, cold, self._bytes, _READ_S_MAX)
            )
            producer = stack.enter_context(
                client.Running("sync_producer", *broker, beside, 1, 1, 0, _READ_S_MAX)
            )
            read = reader.report(_READ_S_MAX + 30)
            producer.finish()
            return read, producer.report(30)

    def clean_up(self) -> None:
        if self._topic is not None:
            topics.delete(self._broker, self._topic)

    def _drop_from_cache(self, topic: str) -> None:
        """Dirty pages stay when they are told to go, hence the fsync."""
        segments = sorted(self._broker.log_folder(topic, 0).glob("*.log"))
        if sum(each.stat().st_size for each in segments) < self._bytes:
            raise BenchError(f"{self._broker.name} has not {self._bytes} bytes in {topic}")
        for each in segments:
            descriptor = os.open(each, os.O_RDONLY)
            try:
                os.fsync(descriptor)
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)
