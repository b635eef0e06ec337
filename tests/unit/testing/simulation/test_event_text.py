from __future__ import annotations

import pytest

from ottla.kernel.ids import TopicPartition
from ottla.testing.history.events import (
    Acknowledged,
    AskCommit,
    Assigned,
    Begin,
    Ended,
    Event,
    LeaderSeen,
    OffsetsCommitted,
    OffsetsFetched,
    OffsetsListed,
    Outcome,
    Polled,
    PolledRecord,
    Send,
    SendFailed,
    SendOffsets,
    SendUnknown,
    Source,
)
from ottla.testing.simulation.entry import Mark
from ottla.testing.simulation.event_text import described

T0 = TopicPartition("t", 0)


@pytest.mark.parametrize(
    ("event", "mark", "text"),
    [
        (Send("c", "v", T0), Mark.SENT, "sends v to t-0"),
        (
            Send("c", "v", T0, "x", Source("g", T0, 4)),
            Mark.SENT,
            "sends v to t-0 in x, from t-0 at 4",
        ),
        (Acknowledged("c", "v", 3), Mark.ACKNOWLEDGED, "v is acknowledged at 3"),
        (Acknowledged("c", "v", None), Mark.ACKNOWLEDGED, "v is acknowledged before"),
        (SendFailed("c", "v"), Mark.SENT, "v has failed"),
        (SendUnknown("c", "v"), Mark.SENT, "v has an unknown outcome"),
        (Begin("c", "x"), Mark.TRANSACTION, "begins x"),
        (SendOffsets("c", "x", "g", {T0: 2}), Mark.TRANSACTION, "sends t-0 2 of g in x"),
        (AskCommit("c", "x"), Mark.TRANSACTION, "asks to commit x"),
        (Ended("c", "x", Outcome.ABORTED), Mark.TRANSACTION, "x is aborted"),
        (Polled("c", (PolledRecord(T0, 1, "v"),)), Mark.READ, "reads: t-0 1 v"),
        (Polled("c", (), False, "x"), Mark.READ, "reads also what is not committed in x: nothing"),
        (Assigned("c", {T0: 7}), Mark.GROUP, "reads from t-0 7"),
        (OffsetsCommitted("c", "g", {T0: 7}, True), Mark.GROUP, "commits t-0 7 of g"),
        (
            OffsetsCommitted("c", "g", {T0: 7}, False),
            Mark.GROUP,
            "commits t-0 7 of g, and does not know whether it did",
        ),
        (OffsetsFetched("c", "g", {}, 9), Mark.GROUP, "is told nothing of g, asked at event 9"),
        (OffsetsListed("c", {T0: 7}, True), Mark.READ, "is told ends: t-0 7"),
        (LeaderSeen("c", T0, 2, 5), Mark.OTHER, "is told that 2 leads t-0 in epoch 5"),
    ],
)
def test_all_of_an_event_is_in_its_line(event: Event, mark: Mark, text: str) -> None:
    assert described(event) == (mark, text)
