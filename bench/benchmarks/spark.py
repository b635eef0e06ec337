"""Rows in and out of Spark, and what a micro-batch costs: our data source beside Spark's own
connector, on either broker."""

from __future__ import annotations

from contextlib import ExitStack

from bench import client, topics
from bench.benchmark import Measures, Setting
from bench.broker import Broker

_PARTITIONS = 4
_BATCHES = 20
_BATCH_PARTITIONS = (1, 10, 100)


class Spark:
    """Reads what was written once; each round writes to a new topic. Each client is a Spark of its
    own: on one core rows are only read, since what is asked is how that grows."""

    name = "spark"
    needs_java = True
    has_cluster = False

    def __init__(self, broker: Broker, setting: Setting) -> None:
        self._broker = broker
        self._folder = setting.folder / f"spark-{broker.folder.name}"
        self._count = setting.effort.count(2_000_000)
        self._stack = ExitStack()

    def prepare(self) -> None:
        self._rows = self._filled("spark-in", _PARTITIONS, self._count)
        self._batches = {
            self._filled(f"spark-batches-{each}", each, each * _BATCHES): each
            for each in _BATCH_PARTITIONS
        }

    def measure(self) -> Measures:
        address = self._broker.address
        measures: Measures = {}
        for cores in (2, 1):
            with topics.temporary(self._broker, "spark-out", _PARTITIONS) as out:
                common = (address, self._rows, _PARTITIONS, self._count, out, self._folder)
                measures |= client.run_python("spark_rows", *common, cores)
        asked = [f"{topic}={partitions}" for topic, partitions in self._batches.items()]
        measures |= client.run_python("spark_batches", address, self._folder, *asked)
        return measures

    def clean_up(self) -> None:
        self._stack.close()

    def _filled(self, stem: str, partitions: int, records: int) -> str:
        topic = self._stack.enter_context(topics.temporary(self._broker, stem, partitions))
        arguments = (self._broker.address, topic, partitions, records)
        client.run(client.python_command("keyed_filler", *arguments))
        return topic
