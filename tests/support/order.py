"""Tests in another order than that of their names, to find those that rely on one before them."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

VARIABLE = "OTTLA_TEST_ORDER"
TESTS = Path(__file__).resolve().parents[1]


def wanted() -> str:
    """Empty for the usual order."""
    order = os.environ.get(VARIABLE, "")
    if order and order != "reverse" and not order.isdecimal():
        raise ValueError(f"{VARIABLE} is {order!r}: it can be reverse, or the number of a shuffle")
    return order


def in_order(items: Iterable[T], path_of: Callable[[T], Path], order: str) -> list[T]:
    """Folders of tests stay as they are, the modules in each and the tests in each of these are
    reversed or shuffled. A module stays together: its tests may share a fixture."""
    arrange = _arrangement(order)
    folders: dict[str, dict[Path, list[T]]] = {}
    for item in items:
        path = path_of(item)
        folders.setdefault(_folder(path), {}).setdefault(path, []).append(item)
    return [
        item
        for modules in folders.values()
        for module in arrange(list(modules.values()))
        for item in arrange(module)
    ]


def _folder(path: Path) -> str:
    return path.relative_to(TESTS).parts[0] if path.is_relative_to(TESTS) else ""


def _arrangement(order: str) -> Callable[[Sequence[T]], list[T]]:
    if order == "reverse":
        return lambda items: list(reversed(items))
    rng = random.Random(int(order))
    return lambda items: rng.sample(items, len(items))
