"""librdkafka with acks=all and no linger, at a steady rate; latency as librdkafka has it, from
`produce` to the answer.

Arguments: ADDRESS BROKER_PIDS TOPIC RATE WARM_UP_S SECONDS
"""

from __future__ import annotations

import json
import sys
import time

from confluent_kafka import KafkaError, Message, Producer

from bench.clients.pipelined_producer import VALUE
from bench.clients.sync_producer import percentile_us
from bench.clients.window import Window, parse_pids

_FLUSH_PATIENCE_S = 60


class PacedProducer:
    """A record that is late is sent at once: a stall of this client makes no record less."""

    def __init__(self, address: str, topic: str, rate: float) -> None:
        self._producer = Producer({"bootstrap.servers": address, "acks": "all", "linger.ms": 0})
        self._topic = topic
        self._rate = rate
        self._latencies_ns: list[int] = []
        self._producer.list_topics(topic, timeout=30)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            raise SystemExit(f"a record was not delivered: {error}")
        self._latencies_ns.append(int((message.latency() or 0.0) * 1e9))

    def run(self, seconds: float) -> list[int]:
        """The latency of each record, in nanoseconds."""
        self._latencies_ns = []
        begin_s = time.perf_counter()
        for number in range(int(seconds * self._rate)):
            while (ahead_s := begin_s + number / self._rate - time.perf_counter()) > 0:
                # librdkafka takes less than a millisecond for none.
                self._producer.poll(0)
                time.sleep(min(ahead_s, 0.001))
            self._producer.produce(self._topic, VALUE, on_delivery=self._delivered)
        left = self._producer.flush(_FLUSH_PATIENCE_S)
        if left:
            raise SystemExit(f"{left} records were not delivered")
        return self._latencies_ns


def main() -> None:
    address, pids, topic, rate, warm_up_s, seconds = sys.argv[1:]
    producer = PacedProducer(address, topic, float(rate))
    producer.run(float(warm_up_s))
    window = Window(*parse_pids(pids))
    latencies_ns = producer.run(float(seconds))
    report = window.close(len(latencies_ns))
    latencies_ns.sort()
    report["p50_us"] = percentile_us(latencies_ns, 0.50)
    report["p99_us"] = percentile_us(latencies_ns, 0.99)
    print(json.dumps(report))


if __name__ == "__main__":
    main()
