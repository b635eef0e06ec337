"""What a job is defined with."""

from __future__ import annotations

import subprocess
import sys

from ottla.kernel.ids import TopicPartition
from ottla.pipeline.jobs.job import offset_ranges


def test_offset_ranges_are_said_by_topic_and_partition() -> None:
    starts = {TopicPartition("a", 0): 3, TopicPartition("gone", 0): 1}
    ends = {TopicPartition("b", 10): 7, TopicPartition("a", 0): 5, TopicPartition("a", 1): 2}
    assert offset_ranges(starts, ends) == {
        "a": {"0": [3, 5], "1": [None, 2]},
        "b": {"10": [None, 7]},
    }


def test_definitions_need_no_spark() -> None:
    program = (
        "import sys, ottla.pipeline.jobs.registry, ottla.pipeline.jobs.job\n"
        "print([name for name in ('pyspark', 'pyarrow', 'numpy') if name in sys.modules])"
    )
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "[]"
