"""librdkafka's transactional producer (transactions version 1) with its own defaults, one
transaction after another; with `read` each is waited for by a reader of committed records.

Arguments: ADDRESS BROKER_PID TOPIC PARTITIONS RECORDS WARM_UP_S SECONDS write|read
"""

from __future__ import annotations

import json
import sys
import time

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from bench.clients.sync_producer import percentile_us
from bench.clients.window import Window
from bench.transactional_producer import VALUE, spread

_PATIENCE_S = 60.0


class Transactions:
    """One producer, and a consumer if there is to be one."""

    def __init__(self, address: str, topic: str, partitions: int, record_count: int) -> None:
        self._topic = topic
        self._targets = [
            partition
            for partition, count in spread(record_count, partitions).items()
            for _ in range(count)
        ]
        self._producer = Producer(
            {"bootstrap.servers": address, "transactional.id": f"{topic}-rdkafka"}
        )
        self._producer.init_transactions(_PATIENCE_S)
        self._consumer: Consumer | None = None
        self.count = 0

    def read_from(self, address: str, partitions: int) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": address,
                "group.id": "bench",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
            }
        )
        self._consumer.assign(
            [TopicPartition(self._topic, each, OFFSET_BEGINNING) for each in range(partitions)]
        )

    def one(self) -> int:
        """Nanoseconds until it is committed, and read if anyone reads."""
        begin_ns = time.perf_counter_ns()
        producer = self._producer
        producer.begin_transaction()
        for partition in self._targets:
            producer.produce(self._topic, VALUE, partition=partition)
        producer.commit_transaction(_PATIENCE_S)
        self.count += 1
        if self._consumer is not None:
            self._read(self._consumer)
        return time.perf_counter_ns() - begin_ns

    def _read(self, consumer: Consumer) -> None:
        left = len(self._targets)
        deadline = time.monotonic() + _PATIENCE_S
        while left:
            # It asks the broker all the time, in a thread of its own.
            for message in consumer.consume(left, timeout=0.001):
                if error := message.error():
                    raise SystemExit(f"consume failed: {error}")
                left -= 1
            if time.monotonic() > deadline:
                raise SystemExit(f"{left} records of a committed transaction never came")

    def run(self, seconds: float) -> list[int]:
        deadline = time.perf_counter() + seconds
        latencies_ns: list[int] = []
        while time.perf_counter() < deadline or not latencies_ns:
            latencies_ns.append(self.one())
        return latencies_ns

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()


def main() -> None:
    address, pid, topic, partitions, records, warm_up_s, seconds, what = sys.argv[1:]
    transactions = Transactions(address, topic, int(partitions), int(records))
    if what == "read":
        transactions.read_from(address, int(partitions))
    transactions.run(float(warm_up_s))
    window = Window(int(pid))
    latencies_ns = transactions.run(float(seconds))
    report = window.close(len(latencies_ns))
    transactions.close()
    report["transactions_in_all"] = transactions.count
    latencies_ns.sort()
    report["p50_us"] = percentile_us(latencies_ns, 0.50)
    report["p99_us"] = percentile_us(latencies_ns, 0.99)
    print(json.dumps(report))


if __name__ == "__main__":
    main()
