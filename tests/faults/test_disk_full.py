"""A disk that takes no more: nothing is acknowledged that was not written, what was stays."""

from __future__ import annotations

import resource

from ottla.kernel.errors import ErrorCode
from ottla.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from tests.conftest import MakeBroker
from tests.support.side_by_side import Subject, a_batch

LIMIT_BYTES = 1_000_000


def test_a_full_disk(make_broker: MakeBroker) -> None:
    """The system refuses to let the broker's files grow beyond a limit, as a full disk would."""
    broker = make_broker()
    subject = Subject("Ottla", broker.bootstrap)
    subject.create("t")
    subject.create("other")
    resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (LIMIT_BYTES, LIMIT_BYTES))
    acknowledged = 0
    while True:
        answer = subject.produce("t", a_batch(b"%d" % acknowledged, b"x" * 90_000))
        if answer.error_code:
            break
        acknowledged += 1
    assert 0 < acknowledged <= LIMIT_BYTES // 90_000
    assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    # The broker still answers, and says what is wrong.
    for topic in ("t", "other"):
        assert subject.produce(topic, a_batch(b"v")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    (folder,) = subject.ask(DescribeLogDirsRequest(topics=None)).results
    assert folder.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert str(broker.data_dir) in broker.log_text()
    assert "Traceback" not in broker.log_text()
    subject.close()
    broker.stop()
    broker.start()
    subject = Subject("Ottla", broker.bootstrap)
    found = subject.fetch("t").responses[0].partitions[0]
    assert (found.error_code, found.high_watermark) == (0, 2 * acknowledged)
    assert subject.produce("t", a_batch(b"v")).base_offset == 2 * acknowledged
    subject.close()
