from __future__ import annotations

from ottla.testing.simulation.entry import STORE, Entry, Mark


def test_lines_are_aligned() -> None:
    first = Entry(1.5, STORE, Mark.LEADER, "source-0: leader 2")
    second = Entry(12.25, "producer0", Mark.ACKNOWLEDGED, "producer0:1 is acknowledged at 0")
    assert str(first).index("source-0") == str(second).index("producer0:1")
    assert str(first) == "   1.500000  store       leader        source-0: leader 2"
