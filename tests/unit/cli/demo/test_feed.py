"""The demo's input."""

from __future__ import annotations

import json
import time
from typing import Any

from ottla.cli.demo.feed import DemoFeed


class FakeProducer:
    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        self.is_flushed = False

    def produce(self, topic: str, value: bytes, key: bytes, on_delivery: Any) -> None:
        assert topic == "activity"
        self.sent.append({"key": key, "value": value})
        on_delivery(None, None)

    def poll(self, timeout: float) -> None:
        time.sleep(timeout)

    def flush(self, _timeout: float) -> None:
        self.is_flushed = True


def test_a_minute_of_the_site_passes_in_a_second() -> None:
    producer = FakeProducer()
    cluster: Any = type("FakeCluster", (), {"producer": lambda self, settings: producer})()
    feed = DemoFeed(cluster, "activity", 1000)
    feed.start()
    while feed.tally.delivered < 200:
        time.sleep(0.01)
    feed.stop()

    assert producer.is_flushed
    assert feed.tally.delivered == len(producer.sent)
    times = []
    for record in producer.sent[:200]:
        try:
            times.append(json.loads(record["value"])["time"])
        except ValueError:
            pass  # one in a hundred is broken
    assert min(times)[11:16] == "08:00"
    # 200 records are a fifth of a second here, if all minutes are alike; some have thrice as many.
    assert "08:00:03" < max(one for one in times if one[0] == "2")[11:19] < "08:00:20"
