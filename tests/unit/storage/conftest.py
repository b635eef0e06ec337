from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.storage.support import close_loops


@pytest.fixture(autouse=True)
def _closed_loops() -> Iterator[None]:
    yield
    close_loops()
