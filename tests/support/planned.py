"""Operations of coordinators without a shard that runs them."""

from __future__ import annotations

from typing import TypeVar

from ottla.coordinators.result import Planned, Result
from ottla.kernel.slices import at_once

T = TypeVar("T")


def planned(operation: Planned[T]) -> Result[T]:
    return operation if isinstance(operation, Result) else at_once(operation)
