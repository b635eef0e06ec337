"""Is it exactly once? Kills examples/exactly_once.py at random, fifty times, and counts receipts.

./ottla start                                      # in one terminal
.venv/bin/python examples/exactly_once_trial.py    # in another; it takes about two minutes
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

BOOTSTRAP: dict[str, Any] = {"bootstrap.servers": os.environ.get("BOOTSTRAP", "localhost:9092")}
KILLS = int(os.environ.get("KILLS", "50"))
WORKER = [sys.executable, str(Path(__file__).with_name("exactly_once.py")), "work"]
SOURCE = "payments"
TARGET = "receipts"


def kill_at_random(trial: str) -> list[str]:
    """The payments that were written meanwhile."""
    producer = Producer({**BOOTSTRAP, "enable.idempotence": True})
    payments: list[str] = []
    worker = subprocess.Popen(WORKER)
    try:
        for number in range(1, KILLS + 1):
            until_s = time.monotonic() + random.uniform(0.5, 2)
            while time.monotonic() < until_s:
                payments.append(f"{trial}/{len(payments)}")
                producer.produce(SOURCE, value=payments[-1])
                producer.poll(0.005)
            worker.kill()
            worker.wait()
            print(f"killed {number} times, {len(payments)} payments")
            worker = subprocess.Popen(WORKER)
        producer.flush()
        wait_for_receipts(trial, len(payments))
    finally:
        worker.kill()
        worker.wait()
    return payments


def wait_for_receipts(trial: str, count: int) -> None:
    deadline_s = time.monotonic() + 60
    while (found := read_receipts(trial).total()) < count:
        if time.monotonic() > deadline_s:
            raise SystemExit(f"only {found} of {count} receipts after a minute")


def read_receipts(trial: str) -> Counter[str]:
    """What is committed up to now."""
    consumer = Consumer(
        {
            **BOOTSTRAP,
            "group.id": "exactly-once-trial",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    unread = set(consumer.list_topics(TARGET).topics[TARGET].partitions)
    consumer.assign([TopicPartition(TARGET, number, 0) for number in unread])
    receipts: Counter[str] = Counter()
    while unread:
        for message in consumer.consume(num_messages=1000, timeout=1):
            error = message.error()
            if error is None:
                value = (message.value() or b"").decode()
                receipts[value] += value.startswith(f"{trial}/")
            elif error.code() == KafkaError._PARTITION_EOF:
                unread.discard(message.partition() or 0)
            else:
                raise SystemExit(str(error))
    consumer.close()
    return +receipts  # Without those of other trials, of which it counted none.


def main() -> None:
    trial = f"trial-{time.time_ns()}"
    payments = kill_at_random(trial)
    receipts = read_receipts(trial)
    missing = len(set(payments) - set(receipts))
    twice = sum(times > 1 for times in receipts.values())
    print(f"{len(payments)} payments, {receipts.total()} receipts after {KILLS} kills")
    print(f"{missing} missing, {twice} more than once")
    if missing or twice:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
