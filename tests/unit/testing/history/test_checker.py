from __future__ import annotations

from ottla.testing.history.checker import find_anomalies
from ottla.testing.history.history import History
from tests.support.histories import batch, polled, replica, written


def test_a_sound_history() -> None:
    history = History([*written("a", 0), *written("b", 1), polled((0, "a"), (1, "b"))])
    logs = [replica(batch(0, "a", "b"), broker_id=number) for number in (1, 2, 3)]
    assert find_anomalies(history, logs) == []


def test_it_tells_all_that_it_finds() -> None:
    history = History([*written("a", 0), *written("b", 1), polled((0, "b"))])
    found = {str(anomaly) for anomaly in find_anomalies(history)}
    assert "inconsistent offsets: t-0 has ['a', 'b'] at 0" in found
    assert "duplicate: 'b' is at 1 of t-0 and at 0 of t-0" in found
    assert len(found) > 2
