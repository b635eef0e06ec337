"""A disk that takes no more: nothing is acknowledged that was not written, what was stays."""

from __future__ import annotations

import resource
import time
from pathlib import Path

import pytest

from ottla.kernel.errors import ErrorCode
from ottla.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from tests.conftest import MakeBroker
from tests.support.ottla_process import OttlaProcess
from tests.support.raw_client import ConnectionClosed
from tests.support.side_by_side import Subject, a_batch

LIMIT_BYTES = 1_000_000
TIMEOUT_S = 60


def fill(broker: OttlaProcess, subject: Subject) -> tuple[int, int]:
    """Lets no file of the broker grow beyond a limit, as a full disk would, and writes until it is
    reached. Returns how many batches were acknowledged, and the error of the next."""
    resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (LIMIT_BYTES, LIMIT_BYTES))
    acknowledged = 0
    while acknowledged <= LIMIT_BYTES // 90_000:
        try:
            answer = subject.produce("t", a_batch(b"%d" % acknowledged, b"x" * 90_000))
        except (ConnectionClosed, ConnectionError):
            return acknowledged, ErrorCode.NETWORK_EXCEPTION
        if answer.error_code:
            return acknowledged, answer.error_code
        acknowledged += 1
    raise AssertionError("more was acknowledged than there was room for")


def assert_goes_on(broker: OttlaProcess, acknowledged: int) -> None:
    with Subject("Ottla", broker.bootstrap) as subject:
        found = subject.fetch("t").responses[0].partitions[0]
        assert (found.error_code, found.high_watermark) == (0, 2 * acknowledged)
        assert subject.produce("t", a_batch(b"v")).base_offset == 2 * acknowledged


def test_one_of_two_disks_is_full(
    make_broker: MakeBroker, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """It takes only its own partitions with it."""
    folders = [tmp_path_factory.mktemp(f"disk-{n}") for n in range(2)]
    broker = make_broker(args=["--data-dir", ",".join(map(str, folders))])
    with Subject("Ottla", broker.bootstrap) as subject:
        subject.create("t")
        subject.create("other")
        full, good = (folder_of(topic, folders) for topic in ("t", "other"))
        assert full != good, "a new partition goes where there are fewest"
        acknowledged, error_code = fill(broker, subject)
        assert acknowledged > 0
        assert error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert subject.produce("t", a_batch(b"v")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert subject.produce("other", a_batch(b"v")).error_code == 0
        results = subject.ask(DescribeLogDirsRequest(topics=None)).results
        codes = {result.log_dir: result.error_code for result in results}
        assert codes == {str(full): ErrorCode.KAFKA_STORAGE_ERROR, str(good): ErrorCode.NONE}
        assert f"{full} is offline" in broker.log_text()
        assert "Traceback" not in broker.log_text()
    broker.stop()
    broker.start()
    assert_goes_on(broker, acknowledged)


def folder_of(topic: str, folders: list[Path]) -> Path:
    (found,) = [folder for folder in folders if (folder / f"{topic}-0").exists()]
    return found


def test_the_only_disk_is_full(make_broker: MakeBroker) -> None:
    """The broker says so and ends: there is nothing that it could serve."""
    broker = make_broker()
    with Subject("Ottla", broker.bootstrap) as subject:
        subject.create("t")
        acknowledged, _ = fill(broker, subject)
        assert acknowledged > 0
    deadline_s = time.monotonic() + TIMEOUT_S
    while broker.is_running and time.monotonic() < deadline_s:
        time.sleep(0.02)
    assert not broker.is_running
    assert f"{broker.data_dir} is offline" in broker.log_text()
    assert "Traceback" not in broker.log_text()
    broker.kill()  # It has ended; now it may be started again.
    broker.start()
    assert_goes_on(broker, acknowledged)
