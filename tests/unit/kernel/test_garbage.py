from __future__ import annotations

import gc
import subprocess
import sys
import weakref

from ottla.kernel.garbage import weakly

_IN_A_PROCESS = """
import asyncio, gc
from ottla.kernel.garbage import freeze_survivors

freeze_survivors(asyncio.new_event_loop())
looked_at = []
gc.callbacks.append(lambda phase, info: phase == "start" and looked_at.append(
    len(gc.get_objects()) if info["generation"] == 2 else 0))
kept = [[number] for number in range(300_000)]
print(max(looked_at) < 50_000, gc.get_freeze_count() > 250_000)
"""


def test_a_full_collection_looks_only_at_what_came_since_the_last_one() -> None:
    command = [sys.executable, "-c", _IN_A_PROCESS]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "True True\n"


_WITH_A_CYCLE = """
import asyncio, gc, weakref
from ottla.kernel import garbage

class Node:
    pass

garbage._FIRST_LOOK = 3
loop = asyncio.new_event_loop()
garbage.freeze_survivors(loop)
node = Node()
node.itself = node
gone = weakref.ref(node)
gc.collect()
del node
gc.collect()
print(gone() is None)
gc.collect()  # The third: after it one looks at everything.
loop.run_until_complete(asyncio.sleep(0))
print(gone() is None, gc.get_freeze_count() > 0)
"""

_AFTER_A_LOOK = """
import asyncio, gc
from ottla.kernel import garbage

garbage.freeze_survivors(asyncio.new_event_loop())
kept = [[number] for number in range(300_000)]
garbage.look_at_everything()
looked_at = []
gc.callbacks.append(lambda phase, info: phase == "start" and looked_at.append(
    len(gc.get_objects()) if info["generation"] == 2 else 0))
kept += [[number] for number in range(50_000)]
print(0 < max(looked_at) < 20_000)
"""


def test_after_a_look_at_everything_full_collections_are_as_short_as_before() -> None:
    """Python would wait for a quarter more than was there, and look at all of that."""
    command = [sys.executable, "-c", _AFTER_A_LOOK]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"


def test_a_cycle_that_was_frozen_is_found_in_the_end() -> None:
    command = [sys.executable, "-c", _WITH_A_CYCLE]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "False\nTrue True\n"


class Owner:
    def __init__(self) -> None:
        self.part = Part(self)

    def called(self, number: int) -> int:
        return number + 1


class Part:
    def __init__(self, owner: Owner) -> None:
        self.call = weakly(owner.called)


def test_an_owner_and_its_part_go_without_the_collector() -> None:
    gc.disable()
    try:
        owner = Owner()
        gone = weakref.ref(owner)
        assert owner.part.call(1) == 2
        del owner
        assert gone() is None
    finally:
        gc.enable()
