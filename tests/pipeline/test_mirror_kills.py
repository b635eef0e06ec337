"""The driver of a mirror is killed wherever a batch could come apart, and at any moment else, and
started again: no record is lost, none is there twice, and their order stays."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.support.counts import IS_FULL, count
from tests.support.crashing_driver import CRASHES, run_driver, run_driver_until_it_writes
from tests.support.mirrors import Record, produce, records_of
from tests.support.need import need_java
from tests.support.ottla_process import OttlaProcess
from tests.support.side_by_side import Subject
from tools.apache_kafka import ApacheKafkaBroker

ROOT = Path(__file__).resolve().parents[2]
DRIVER = Path(__file__).parent / "drivers" / "mirror.py"
PARTITIONS = 8
RECORDS_A_ROUND = 800
FEW, ALL = "100", "100000"
"""Records of a batch."""
LIFE_S = 5.0
"""About how long a driver lives that is not killed, once it has begun."""


@pytest.mark.timeout(1800 if IS_FULL else 900)
@pytest.mark.parametrize(
    "is_from_ottla", [True, False] if IS_FULL else [True], ids=lambda one: f"from_ottla_{one}"
)
def test_no_record_is_lost_and_none_is_there_twice(
    shared_broker: OttlaProcess,
    apache_kafka: ApacheKafkaBroker,
    is_from_ottla: bool,
    tmp_path: Path,
) -> None:
    need_java()
    ends = (shared_broker.bootstrap, apache_kafka.bootstrap)
    source, target = ends if is_from_ottla else ends[::-1]
    topic = f"mirror-kills-{is_from_ottla}"
    args = (source, target, topic, str(tmp_path))
    rng = random.Random(6)
    with Subject("source", source) as subject:
        subject.create(topic, PARTITIONS)
    fill(source, topic, 0)
    rounds = 1
    for crash_point in CRASHES[: count(full=len(CRASHES), quick=2)]:
        run_driver(DRIVER, *args, FEW, crash_point=crash_point)
        fill(source, topic, rounds)
        rounds += 1
    for log in ("offsets", "commits")[: count(full=2, quick=1)]:
        checkpoint = tmp_path / "checkpoints" / "mirror"
        run_driver_until_it_writes(DRIVER, *args, FEW, log=checkpoint / log)
        fill(source, topic, rounds)
        rounds += 1
    for _ in range(count(full=20, quick=2)):
        kill_after(rng.uniform(0, LIFE_S), *args, FEW)
        fill(source, topic, rounds)
        rounds += 1
    run_driver(DRIVER, *args, ALL)
    expected = records_of(source, topic)
    assert sum(map(len, expected.values())) == rounds * RECORDS_A_ROUND
    assert records_of(target, topic) == expected


def fill(bootstrap: str, topic: str, round_number: int) -> None:
    first = round_number * RECORDS_A_ROUND
    records = [
        (number % PARTITIONS, Record(b"%d" % (number % 100), b"%d" % number, now_ms(), ()))
        for number in range(first, first + RECORDS_A_ROUND)
    ]
    produce(bootstrap, topic, records)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def kill_after(life_s: float, *args: str) -> None:
    """Kills the JVM of a driver so long after it has begun, if it has not ended by then."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    with subprocess.Popen(
        [sys.executable, str(DRIVER), *args],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
    ) as driver:
        assert driver.stdout is not None
        assert driver.stdout.readline() == b"begun\n"
        try:
            driver.wait(life_s)
        except subprocess.TimeoutExpired:
            for child in psutil.Process(driver.pid).children():
                if child.name() == "java":
                    child.send_signal(signal.SIGKILL)
            # What is left of it finds out, and ends with an error.
            driver.wait(60)
