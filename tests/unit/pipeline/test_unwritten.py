"""What it is for is in tests/pipeline/test_runner.py: that needs Spark."""

from __future__ import annotations

from unittest.mock import MagicMock

from ottla.pipeline.unwritten import evaluate


def test_all_rows_are_asked_for_and_go_nowhere() -> None:
    frame = MagicMock()
    evaluate(frame)
    frame.write.format.assert_called_once_with("noop")
    frame.write.format().mode().save.assert_called_once_with()
