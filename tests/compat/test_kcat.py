"""kcat, which has a librdkafka of its own that is some years old."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.support.need import need_kcat
from tests.support.ottla_process import OttlaProcess
from tests.support.side_by_side import NOW_MS, Subject, a_batch


def kcat(broker: OttlaProcess, *args: str, stdin: str = "") -> str:
    command = [need_kcat(), "-b", broker.bootstrap, *args]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_produce_and_consume(shared_broker: OttlaProcess, topic: str, compression: str) -> None:
    lines = [f"key-{n}:value {n}" for n in range(100)]
    kcat(
        shared_broker,
        *("-P", "-t", topic, "-p", "0", "-K", ":", "-z", compression, "-H", "a=b"),
        stdin="\n".join(lines),
    )
    out = kcat(
        shared_broker,
        *("-C", "-t", topic, "-p", "0", "-o", "beginning", "-e", "-q"),
        *("-f", "%p %o %h %k:%s\n"),
    )
    assert out.splitlines() == [f"0 {n} a=b {line}" for n, line in enumerate(lines)]


def test_list(shared_broker: OttlaProcess, topic: str) -> None:
    with Subject("Ottla", shared_broker.bootstrap) as subject:
        subject.create(topic, 3)
    listed = json.loads(kcat(shared_broker, "-L", "-J", "-t", topic))
    assert [broker["name"] for broker in listed["brokers"]] == [shared_broker.bootstrap]
    (found,) = listed["topics"]
    assert found["topic"] == topic
    assert [(one["partition"], one["leader"]) for one in found["partitions"]] == [
        (0, 1),
        (1, 1),
        (2, 1),
    ]


def test_offsets(shared_broker: OttlaProcess, topic: str) -> None:
    with Subject("Ottla", shared_broker.bootstrap) as subject:
        subject.create(topic)
        for n in range(10):
            subject.produce(topic, a_batch(b"%d" % n, timestamp=NOW_MS + n * 10))
    asked = f"{topic}:0:{NOW_MS + 25}"
    assert kcat(shared_broker, "-Q", "-t", asked).strip() == f"{topic} [0] offset 3"
    consume = ("-C", "-t", topic, "-p", "0", "-e", "-q")
    assert kcat(shared_broker, *consume, "-o", "7").split() == ["7", "8", "9"]
    assert kcat(shared_broker, *consume, "-o", "-2").split() == ["8", "9"]
    since = f"s@{NOW_MS + 55}"
    assert kcat(shared_broker, *consume, "-o", since).split() == ["6", "7", "8", "9"]
    assert kcat(shared_broker, *consume, "-o", "beginning", "-c", "2").split() == ["0", "1"]
