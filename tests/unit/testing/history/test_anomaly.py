from __future__ import annotations

from ottla.testing.history.anomaly import Anomaly, AnomalyKind


def test_its_text_begins_with_its_name() -> None:
    assert str(Anomaly(AnomalyKind.LOST_WRITE, "'a'")) == "lost write: 'a'"
