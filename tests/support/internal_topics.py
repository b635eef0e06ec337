"""What Apache Kafka's tools read in internal topics, to which groups and transactions of all tests
write."""

from __future__ import annotations

import json
from typing import Any

from ottla.kernel.java import abs_hash
from tests.support.side_by_side import Subject
from tools.apache_kafka import run_tool

_FORMATTERS = "org.apache.kafka.tools.consumer"
_PARTITION_COUNT = 50


def formatted(bootstrap: str, topic: str, name: str, formatter: str) -> list[Any]:
    """The records of the partition that this group or transactional id has. What others write
    meanwhile, to any partition, neither ends the reading early nor keeps it up."""
    partition = abs_hash(name) % _PARTITION_COUNT
    with Subject("the broker", bootstrap) as subject:
        record_count = sum(
            header.record_count
            for header, _ in subject.batches_of(topic, partition)
            if not header.is_control
        )
    output = run_tool(
        "console-consumer",
        *("--bootstrap-server", bootstrap, "--topic", topic),
        *("--partition", str(partition), "--offset", "earliest"),
        *("--max-messages", str(record_count), "--timeout-ms", "60000"),
        *("--formatter", f"{_FORMATTERS}.{formatter}"),
    ).stdout
    found: list[Any] = json.loads("[" + output.strip().replace("}{", "},{") + "]")
    return found
