"""A driver is killed at every point where a micro-batch could come apart, and started again: no
record is lost, and none is there twice."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import confluent_kafka
import pytest

from tests.support.counts import IS_FULL
from tests.support.crashing_driver import CRASHES, run_driver, run_driver_until_it_writes
from tests.support.need import need_java
from tests.support.read_back import read_back
from tests.support.side_by_side import SUBJECTS, Subject

DRIVER = Path(__file__).parent / "drivers" / "keyed_copy.py"
INPUT_PARTITIONS, OUTPUT_PARTITIONS = 8, 3
KEYS, ROWS = 30, 900

# Starting Spark again and again is what takes the time: quick runs have each crash, and each broker
# and way, but not all of them together.
LOGS = ("offsets", "commits")
ALL = [(name, way, CRASHES, LOGS) for name in SUBJECTS for way in ("stream", "batch")]
QUICK = [
    ("Ottla", "stream", CRASHES[::2], LOGS[:1]),
    ("Apache Kafka", "batch", CRASHES[1::2], LOGS[1:]),
]


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("subject", "way", "crash_points", "logs"), ALL if IS_FULL else QUICK, indirect=["subject"]
)
def test_no_record_is_lost_and_none_is_there_twice(
    subject: Subject, way: str, crash_points: Sequence[str], logs: Sequence[str], tmp_path: Path
) -> None:
    need_java()
    source, target = f"kills-{way}-in", f"kills-{way}-out"
    subject.create(source, INPUT_PARTITIONS)
    subject.create(target, OUTPUT_PARTITIONS)
    fill(subject, source, 0)
    args = (way, subject.bootstrap, source, target, str(tmp_path))
    for crash_point in crash_points:
        run_driver(DRIVER, *args, crash_point=crash_point)
    expected = ROWS
    for log in logs:
        fill(subject, source, expected)
        expected += ROWS
        run_driver_until_it_writes(DRIVER, *args, log=tmp_path / "checkpoint" / log)
    run_driver(DRIVER, *args)
    found = read_back(subject.bootstrap, target)
    for number in range(KEYS):
        values = [one for one in found if one.key == b"%d" % number]
        assert len({one.partition for one in values}) == 1
        assert [int(one.value or b"") for one in values] == list(range(number, expected, KEYS))
    assert len(found) == expected


def fill(subject: Subject, topic: str, first: int) -> None:
    """As many rows again, from this number on."""
    producer = confluent_kafka.Producer({"bootstrap.servers": subject.bootstrap})
    for number in range(first, first + ROWS):
        producer.produce(topic, key=b"%d" % (number % KEYS), value=b"%d" % number)
    assert producer.flush(30) == 0
