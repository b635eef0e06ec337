"""Changes of one node, for stores that can change several at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from ottla.coordination.store import ANY_VERSION, Create, Delete, Operation, Set


class SingleOperations(ABC):
    """Of `Store`: those that are a `multi` of one."""

    __slots__ = ()

    @abstractmethod
    async def multi(self, operations: Sequence[Operation]) -> list[str | int | None]: ...

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False
    ) -> str:
        (created,) = await self.multi([Create(path, data, ephemeral, sequential)])
        assert isinstance(created, str)
        return created

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> int:
        (new_version,) = await self.multi([Set(path, data, version)])
        assert isinstance(new_version, int)
        return new_version

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        await self.multi([Delete(path, version)])
