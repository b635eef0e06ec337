"""What the README tells users to run does what it says: from top to bottom, and twice. The blocks
that run Spark have their turn in tests/pipeline/test_readme.py."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.readme import README, Block, Reader, blocks

ROOT = Path(__file__).resolve().parents[3]


def test_its_blocks_run_from_top_to_bottom_and_twice(tmp_path: Path) -> None:
    with Reader(tmp_path) as reader:
        for offset in (0, 10):
            printed = {block: reader.run(block) for block in blocks() if not block.needs_spark}
            assert "hello" in printed[block_with("produce greetings")]
            assert printed[block_with("import Consumer")].splitlines() == [
                f"{offset + number} b'user-{number % 3}' b'/page/{number}'" for number in range(10)
            ]
            assert "readers" in printed[block_with("groups describe")]
            reader.stop()


def block_with(words: str) -> Block:
    (found,) = [block for block in blocks() if words in block.text]
    return found


def test_every_block_is_run_somewhere() -> None:
    assert {block.language for block in blocks()} == {"sh", "python"}


def test_the_way_to_the_first_record_is_short() -> None:
    """Start, produce, consume: before anything of Spark."""
    first, second, third, *rest = blocks()
    assert first.text == "./ottla start\n"
    assert ("produce" in second.text, third.language) == (True, "python")
    assert len([line for line in third.text.splitlines() if line.strip()]) <= 15
    assert [block.needs_spark for block in rest[:2]] == [False, True]


def test_the_broker_for_tests_of_the_faq_starts_and_ends(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "faq.md").read_text()
    (program,) = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    assert "...  # your test" in program
    with Reader(tmp_path) as reader:
        printed = reader.run(Block("python", program.replace("...  # your", "print(bootstrap)  #")))
    assert re.fullmatch(r"localhost:\d+\n", printed)


def test_its_links_lead_somewhere() -> None:
    targets = re.findall(r"\]\((?!https?:|#)([^)#]+)", README)
    assert targets
    assert [target for target in targets if not (ROOT / target).exists()] == []
