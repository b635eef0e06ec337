"""The whole README, Spark and all: from top to bottom, and twice."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.readme import Reader, blocks

pytestmark = pytest.mark.timeout(900)


def test_its_blocks_run_from_top_to_bottom_and_twice(tmp_path: Path) -> None:
    with Reader(tmp_path) as reader:
        for views in (4, 8):
            printed = ""
            for block in blocks():
                if views == 4 or block.text.strip() != "./ottla demo":  # It leaves nothing behind.
                    printed += reader.run(block)
            assert re.search(r"[1-9]\d* page views of ", printed), "what the pipeline found out"
            assert re.search(rf"\| *user-0\| *{views}\|", printed), "what one's own program counted"
            reader.stop()
