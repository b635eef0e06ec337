from __future__ import annotations

from ottla.pipeline.run.stages import STAGES


def test_a_screen_knows_what_is_to_come() -> None:
    assert STAGES == ("Java", "Spark session", "first query", "first result", "all queries")
