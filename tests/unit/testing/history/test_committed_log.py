from __future__ import annotations

from ottla.testing.history.committed_log import CommittedLog, committed_logs
from ottla.testing.history.events import Outcome
from tests.support.histories import P0, P1, batch, marker, replica


def test_a_marker_ends_what_its_producer_wrote_since_the_last_one() -> None:
    log = CommittedLog(
        replica(
            batch(0, "a", producer_id=1, is_transactional=True),
            batch(1, "b", producer_id=2, is_transactional=True),
            marker(2, 1),
            batch(3, "c", producer_id=1, producer_epoch=1, is_transactional=True),
            batch(4, "plain"),
            marker(5, 1, Outcome.ABORTED),
        )
    )
    assert {record.value: record.outcome for record in log.records.values()} == {
        "a": Outcome.COMMITTED,
        "b": Outcome.UNKNOWN,
        "c": Outcome.ABORTED,
        "plain": Outcome.COMMITTED,
    }
    assert log.end_offset == 6


def test_the_longest_replica_stands_for_all() -> None:
    logs = committed_logs(
        [
            replica(batch(0, "a"), broker_id=1),
            replica(batch(0, "a"), batch(1, "b"), broker_id=2),
            replica(batch(0, "c"), partition=P1),
        ]
    )
    assert [record.value for record in logs[P0].records.values()] == ["a", "b"]
    assert [record.value for record in logs[P1].records.values()] == ["c"]
