"""How much a test does: about a tenth in `./test`, all of it in `./test --full`."""

from __future__ import annotations

import os

IS_FULL = os.environ.get("OTTLA_TEST_FULL") == "1"


def count(full: int, quick: int | None = None) -> int:
    if IS_FULL:
        return full
    return quick if quick is not None else max(1, full // 10)
