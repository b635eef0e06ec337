"""`ottla generate` as a user runs it, against Ottla and against Apache Kafka: what is in the topic
is what the seed makes, so that its true answers hold."""

from __future__ import annotations

import base64
from collections import Counter
from typing import Any

import pytest

from ottla.pipeline.generate import activity, logs, metrics
from ottla.pipeline.generate.event import limited
from tests.compat.test_cli import Cli, read_all
from tests.support.side_by_side import SUBJECTS

GENERATORS: dict[str, Any] = {
    "activity": activity.Generator,
    "logs": logs.Generator,
    "metrics": metrics.Generator,
}
NEW_YEAR_MS = 1_767_225_600_000


@pytest.fixture(params=SUBJECTS)
def cli(request: pytest.FixtureRequest) -> Cli:
    if request.param == "Ottla":
        broker = request.getfixturevalue("shared_broker")
        return Cli(broker.bootstrap, broker.data_dir)
    kafka = request.getfixturevalue("apache_kafka")
    return Cli(kafka.bootstrap, kafka.log_dir)


def bytes_of(record: dict[str, Any]) -> tuple[bytes, bytes]:
    encoded = record.get("value_base64")
    value = record["value"].encode() if encoded is None else base64.b64decode(encoded)
    return record["key"].encode(), value


@pytest.mark.parametrize("kind", GENERATORS)
def test_the_topic_has_what_the_seed_makes(cli: Cli, kind: str, topic: str) -> None:
    cli("topics", "create", topic, "--partitions", "3")

    seeded = ["--seed", "5", "--rate", "10", "--start", str(NEW_YEAR_MS)]
    summary = cli.json("generate", kind, *seeded, "--seconds", "300", "--fast", "--topic", topic)

    end_ms = NEW_YEAR_MS + 300_000
    events = list(limited(GENERATORS[kind](5, 10, NEW_YEAR_MS), end_ms=end_ms))
    in_topic = Counter(bytes_of(record) for record in read_all(cli, topic))
    assert in_topic == Counter((e.key, e.value) for e in events)
    seconds = summary.pop("seconds")
    assert seconds > 0
    assert summary == {
        "records": len(events),
        "failed": 0,
        "not_acknowledged": 0,
        "late": sum(e.is_late for e in events),
        "broken": sum(e.is_broken for e in events),
        "seed": 5,
        "rate": 10,
        "start_ms": NEW_YEAR_MS,
    }


def test_as_time_goes_by(cli: Cli, topic: str) -> None:
    done = cli("generate", "metrics", "--rate", "50", "--seconds", "2", "--topic", topic)

    count = len(read_all(cli, topic))
    assert count > 0
    assert done.stdout.decode().startswith(f"records     {count} to {topic} in ")
    assert b"ottla: the same again: --rate 50.0 --seed 1 --start 20" in done.stderr


def test_lines_go_through_produce(cli: Cli, topic: str) -> None:
    lines = cli("generate", "logs", "--count", "300", "--fast", "--to-stdout").stdout

    cli("produce", topic, "--json", stdin=lines)

    assert len(read_all(cli, topic)) == 300
