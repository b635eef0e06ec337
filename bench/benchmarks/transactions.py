"""Transactions of 1, 10 and 100 records: how many a second, and how soon they can be read."""

from __future__ import annotations

from bench import client, topics
from bench.benchmark import Measures, Setting
from bench.broker import Broker
from bench.client import Report

RECORDS = (1, 10, 100)
PARTITIONS = 3
PRODUCERS = 10
_PREPARATION_S = 1.0


class Transactions:
    """Four kinds of clients: librdkafka (transactions version 1) and our own (version 2, of which
    there are several), which write; and the same with a reader, one transaction at a time."""

    name = "transactions"
    needs_java = False
    has_cluster = False

    def __init__(self, broker: Broker, setting: Setting) -> None:
        self._broker = broker
        self._warm_up_s = setting.effort.seconds(0.2)
        self._seconds = setting.effort.seconds(1.0)

    def prepare(self) -> None:
        """The warm-up of the run has no transactions in it."""
        self._write(100, _PREPARATION_S)
        self._rdkafka(100, _PREPARATION_S, "read")
        self._read(10, _PREPARATION_S)

    def measure(self) -> Measures:
        measures: Measures = {}
        for count in RECORDS:
            for kind, report in (
                ("rdkafka", self._rdkafka(count, self._seconds, "write")),
                ("raw", self._write(count, self._seconds)),
            ):
                spent = client.spent(report)
                measures[f"txn_{kind}_{count}"] = spent.rate
                measures[f"txn_{kind}_{count}.cpu"] = spent.cpu_us
                measures[f"txn_{kind}_{count}.client_busy"] = report["client_busy"]
            for kind, report in (
                ("rdkafka", self._rdkafka(count, self._seconds, "read")),
                ("raw", self._read(count, self._seconds)),
            ):
                key = f"txn_{kind}_{count}_p50_us"
                measures[key] = report["p50_us"]
                measures[f"{key}.cpu"] = client.spent(report).cpu_us
                measures[f"txn_{kind}_{count}_p99_us"] = report["p99_us"]
        return measures

    def _rdkafka(self, count: int, seconds: float, what: str) -> Report:
        return self._run("rdkafka_transactions", (), count, seconds, (what,))

    def _write(self, count: int, seconds: float) -> Report:
        return self._run("transactional_producers", (PRODUCERS,), count, seconds)

    def _read(self, count: int, seconds: float) -> Report:
        return self._run("transaction_reader", (), count, seconds)

    def _run(
        self,
        module: str,
        before: tuple[object, ...],
        count: int,
        seconds: float,
        after: tuple[object, ...] = (),
    ) -> Report:
        broker = self._broker
        with topics.temporary(broker, "txn", PARTITIONS) as topic:
            report = client.run_python(
                module,
                *(broker.address, broker.pid, topic, PARTITIONS, *before, count),
                *(self._warm_up_s, seconds, *after),
            )
            # Its records, and a marker in each partition that has some of them.
            offsets = count + min(count, PARTITIONS)
            in_all = int(report["transactions_in_all"])
            topics.check_committed_end(broker, topic, PARTITIONS, in_all * offsets)
        return report

    def clean_up(self) -> None:
        pass
